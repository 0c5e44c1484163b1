"""Short texts and the sentences in them: ``|`` stands where one ends and the next begins."""

import textwrap

import pytest

from fitrag_integrations.text.sentences import split_sentences

PROSE = """
Mrs. Lind met Prof. Okoye and Gen. Ward on Jan. 5 at 7 a.m.| They talked for an hour.
The poem is by T. S. Eliot.| J.R.R. Tolkien praised it.| So did W. H. Auden.
She moved to the U.S. in 1962.| The U.S. Army hired her.| He works in the U.S.| She does not.
Rev. Okoye and Lt. Ward met Gov. Lind.| Sgt. Besk and Capt. Arlow came.| Hon. Judge Okoye left.
Use small marks, e.g. dots, i.e. points.| See fig. 3 and eq. (4).| Cf. Sec. 2.1 for more.
See Ch. 4, pp. 13-15, Vol. 2, and Art. 5.| Then rest.
He sold nails, screws, etc.| The shop closed in 1931.
Marbach et al. (1998) disagree.| See Lind et al. for details.
It was No. 7 in the charts.| No.| That is wrong.
Arlow Inc. bought Besk Ltd. in 2004.| Tirva Corp. sold it again.| Besk Inc.| It went on.
She holds a Ph.D. from Norland.| He has an M.A. in music.
Elizabeth II died in 2022.| Then came Charles III.| He was old.
It weighs 3.5 kg.| Pi is 3.14159.| Version 2.0.1 fixed it.| It cost $1.5 million.
See https://Example.org/A.b?c=d.| It is short.| Write to a.b@example.org.| Thanks!
Open setup.py and run it.| Then read README.md.| Done.
Use ``--all`` to moor them at once.| By default it is off.| See ``row``.| It is old.
Use Console.WriteLine to print.| Call `a.b. C` to start.| It returns.
He waited... and waited.| Then... nothing.| He waited…| And then he left.
Really?!| Yes!!| No...?| Ok.
This is one.|This is two.|And three.
this is one.| this is two, e.g. here.| this is three.
THE END IS NEAR.| NOBODY CARES.
He came; she left; London fell.| They met again.
He left (it was late).| She stayed.| (Nobody knew why.)| They slept (Lind, 1998).| End.
It was built in 1712.[1]| It fell in 1801.[2][3]| Nothing is left.¹| Really.
*Bold one.*| _Italic two._| **Strong three.**| Next.
Read [the note.](http://a.example) Then go.
LONDON (Reuters) - It rained.| It stopped.
Great 👍🏽!| See you 👨\u200d👩\u200d👧.| Bye 🇩🇪🇫🇷!| Yes.
Steps: 1. Wash.| 2. Cut the pear.| 3. Eat.
The shop sells| • one kind of pear| • two kinds of nails| • and screws
Dr. Smith met J. R. Jones at 5 p.m. in St. Louis.| He left, e.g. by car.
I don't know.| You can't tell.| We won't ask.| Yes.| Yes.| Yes.
Write to Industriestr. 14, Apt. 4 or Bahnhofpl. 3, 8005 Zurich.| It takes 2 Std. 15 Min. by bus.
""".strip().split("\n")

QUOTES = """
"Come in," she said.| "It is cold."| He came in.
She asked: "Who is there?"| Nobody answered.| "Stop!" he cried.
He said, "I will go.| I promise."| Then he went.
“I will go.”| He went.| ‘Why?’ she asked.
« Je viens », dit-il.| « Où est-elle ? »| Personne ne répondit.
„Komm!“, rief sie.| „Es ist kalt.“| Er kam.| »Komm!« rief sie.| »Nein.«| Er blieb.
«Viens.»| Il vint.
""".strip().split("\n")

LANGUAGES = """
Der Fluss ist z. B. im Sommer warm.| Am 3. Mai 1912 wurde die Brücke eröffnet.| Sie ist alt.
Die 2. Sinfonie steht in Kap. 3 und Abs. 2.| Das sog. Haus steht bzw. stand dort.
¿Quién vive aquí?| ¡Nadie!| El Sr. López se fue a EE. UU. en 1980.| Volvió tarde.
M. Dupont habite ici.| Il est né le 1er mai.| Voir p. ex. Arlow.| C’est vrai\u00a0!| Oui.
Il sig. Rossi abita qui.| È nato nel 1911.| Cfr. Besk.| Scrisse musica per film.
Он жил в г. Москве на ул. Ленина.| А. С. Пушкин писал.| Он родился в 1911 г.| Она тоже.
Πού είναι;| Εδώ.| Δεν ξέρω· ίσως αύριο.
他写了配乐。|他出生在米兰！|真的吗？|“是的。”|他说。
彼は映画音楽を書いた。|「本当ですか？」と彼女は聞いた。|はい。
그는 영화 음악을 썼다.| 정말입니까?| 네.
كتب نينو روتا الموسيقى.| هل ولد في ميلانو؟| نعم، ولد هناك.
وہ میلان میں پیدا ہوا۔| اس نے موسیقی لکھی۔
वह मिलान में पैदा हुआ।| उसने संगीत लिखा।| क्या यह सच है?
הוא נולד במילאנו.| הוא כתב מוזיקה.| האם זה נכון?
Նա ծնվել է Միլանում։| Նա երաժշտություն էր գրում։
እሱ በሚላን ተወለደ።| ሙዚቃ ጻፈ።
သူသည် မီလန်တွင် မွေးဖွားသည်။| သူသည် ဂီတ ရေးသားသည်။
គាត់កើតនៅមីឡាន។| គាត់សរសេរភ្លេង។
ཁོང་མི་ལན་ལ་སྐྱེས།| ཁོང་གིས་རོལ་དབྱངས་བྲིས།
เขาเกิดที่มิลาน เขาเขียนเพลงประกอบภาพยนตร์ เขาเสียชีวิตที่กรุงโรม
""".strip().split("\n")

LINES = [
    "เมืองหลวงของไทยคือกรุงเทพมหานคร แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพลงสู่อ่าวไทย "
    "ดอยอินทนนท์สูงที่สุดในประเทศไทย สูง 2,565 เมตร| พริกขี้หนูปลูกมากในภาคใต้",
    "# Life|\nHe was born.|\n- one|\n- two|\n1. First|\n2. Second",
    "Early life|\nHe was born in Milan.",
    "He wrote it\nin 1973.",
    "He wrote it\nin the end.",
    "The composer was born in the city of Milan, where at first\nRota also studied.| He\nleft.",
    "# Life|\n\nHe was born. |He died.|\n## Work|\nFilms.",
    "Life\n====|\nHe was born. |He died.|\n\nWork\n---|\nFilms.",
    "Needed:|\n- one pear.| Red.|\n- two nails|\n\n1. Wash.|\n2. Cut.| Eat.",
    "- one pear that is so long that it wraps onto the\n  next line of the list|\n- two",
    "a) first|\nb) second|\n(c) third|\niv) fourth",
    "1.1 Scope of all that is said in this agreement and in its parts|\n1.2 Terms of it",
    "一、他写了配乐，他出生在米兰，他后来在罗马去世，他写过很多电影音乐|\n二、他出生在米兰",
    "Q: Who?| A: Me.|\nQ: When?|\nA: Now.",
    "The sea is grey,|\nThe wind is cold,|\nAnd all the day|\nIs growing old.",
    "> He said so.|\n> Then he left.|\n\nEnd.",
    "First line is here.|\r\nSecond one.|\r\n\r\nThird para.| Fourth.",
    "Page one ends here.|\fPage two begins here.| It goes on.|\x0bYes.|\u2028No.",
    "Il est né à 5\u00a0heures.|\u00a0Vraiment\u00a0?|\u00a0Oui.",
    "One\u200bword here.\u200b|Two\u200bwords here.",
]

TABLES = [
    ["He was born.", "| a | b |", "| c | d |", "1. First"],
    ["| Town | Year |\n|---|---|", "| Arlow | 1712 |", "| Besk | 1694 |", "The end."],
    ["Town\tYear", "Arlow\t1712", "Besk\t1694"],
    ["A town and what it lives on | The year in which it was founded\n--- | ---", "Besk | 1694"],
]

CODE = [
    ["Run this:", "```python\nx = 1. \nif x:\n    print('A. B.')\n\nprint(2)\n```", "Then stop."],
    ["Code:", "~~~\na. B\n```\nc. D\n~~~", "Done."],
    ["print(1)\n```", "That was the end.", "```sh\nls. Now\n```", "Yes."],
]


def sentences(text):
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize("marked", [*PROSE, *QUOTES, *LANGUAGES, *LINES])
def test_sentences_end_where_they_are_marked(marked):
    assert sentences(marked.replace("|", "")) == [each.strip() for each in marked.split("|")]


PARAGRAPHS = [
    "The pump must be cleaned every two weeks by hand. Use water of at most 60 "
    "degrees and never soap, as it leaves a film on the seals. The Model 500 "
    "needs at least 3 liters.",
    "Wer das Haus im Winter heizt und darin wohnt, zahlt nur 40 Euro mehr im Monat, was auch im "
    "Vertrag von 1998 steht. Der Rest ist frei und bleibt es bis zum Ende der Miete.",
    "Call the office before you come, because it closes at noon on days with a market. Bring 12 "
    "copies and a list of all that is due. Nobody is let in without one.",
]


@pytest.mark.parametrize("width", [30, 34, 38, 42, 46])
@pytest.mark.parametrize("text", PARAGRAPHS)
def test_wrapping_changes_no_sentence(text, width):
    wrapped = [" ".join(one.split()) for one in sentences(textwrap.fill(text, width))]
    assert wrapped == sentences(text)


@pytest.mark.parametrize("rows", TABLES)
def test_a_table_is_a_row_each(rows):
    assert sentences("\n".join(rows)) == rows


@pytest.mark.parametrize("parts", CODE)
def test_fenced_code_stays_whole(parts):
    assert sentences("\n\n".join(parts)) == parts


def test_long_code_is_cut_between_its_lines():
    lines = [f"    total += price[{n}] * count[{n}]  # Add. Go on." for n in range(60)]
    pieces = sentences("```\n" + "\n".join(lines) + "\n```")
    assert 2 < len(pieces) < 10
    assert all(piece.split("\n")[-1] in (*lines, "```") for piece in pieces)


def test_a_text_without_stops_is_cut_at_its_pauses():
    text = "and then we went on to the next town, " * 40
    assert all(piece.endswith("town,") for piece in sentences(text))


def test_wrapped_lines_of_ideographs_run_on():
    line = "他在米兰出生并在那里学习音乐后来他搬到了罗马并为许多电影写了"
    assert sentences(f"{line}\n配乐。他去世了。") == [f"{line}\n配乐。", "他去世了。"]
