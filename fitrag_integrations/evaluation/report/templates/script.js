"use strict";
// Works without: this only adds finding words, sorting tables, and opening a question by its link.
const box = document.querySelector("#find");
const questions = [...document.querySelectorAll(".question")];
const open = () => {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found instanceof HTMLDetailsElement) found.open = true;
};
if (box) {
  const texts = questions.map((each) => each.textContent.toLowerCase());
  box.hidden = false;
  box.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.trim().toLowerCase();
    let count = 0;
    questions.forEach((each, at) => {
      each.hidden = !texts[at].includes(words);
      count += !each.hidden;
    });
    box.querySelector("[role=status]").textContent = words ? `${count} found` : "";
  });
}
const cell = (row, at) => row.cells[at].firstChild?.textContent ?? "";
const dash = (row, at) => !/\d/.test(cell(row, at));
const amount = (row, at) => parseFloat(cell(row, at).replace("\u2212", "-").replaceAll(",", ""));
document.querySelectorAll("thead th").forEach((head) => {
  head.tabIndex = 0;
  head.onkeydown = (event) => event.key === "Enter" && head.click();
  head.onclick = () => {
    const at = head.cellIndex, body = head.closest("table").tBodies[0];
    const way = head.ariaSort === "descending" ? 1 : -1; // the largest first; dashes stay last
    [...head.parentNode.cells].forEach((each) => { each.ariaSort = null; });
    head.ariaSort = way < 0 ? "descending" : "ascending";
    body.append(...[...body.rows].sort((a, b) => dash(a, at) - dash(b, at)
      || way * (amount(a, at) - amount(b, at) || cell(a, at).localeCompare(cell(b, at)))));
  };
});
addEventListener("hashchange", open);
open();
