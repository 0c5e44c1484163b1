"""The models that ship, run by ONNX Runtime over numpy: no torch, no transformers."""
