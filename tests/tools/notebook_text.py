#!/usr/bin/env python3
"""Prints what the code cells of an executed notebook gave, as text: notebook_text.py FILE [--last]

--last: only the last cell that gave something, which is where the demo has its table.
"""
import argparse

import nbformat


def text_of(output):
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return "\n".join(output.traceback) or f"{output.ename}: {output.evalue}"
    return output.data.get("text/plain", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--last", action="store_true")
    arguments = parser.parse_args()
    notebook = nbformat.read(arguments.file, as_version=4)
    texts = ["".join(text_of(o).rstrip("\n") + "\n" for o in cell.outputs if text_of(o).strip())
             for cell in notebook.cells if cell.cell_type == "code"]
    texts = [text for text in texts if text]
    for text in texts[-1:] if arguments.last else texts:
        print(text, end="")


if __name__ == "__main__":
    main()
