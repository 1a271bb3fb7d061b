#!/usr/bin/env python3
"""Executes a notebook and prints the texts of its cells: `run_notebook.py NOTEBOOK [OUT]`."""

import sys

import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
for cell in notebook.cells:
    for output in cell.get("outputs", []):
        print(output.get("data", {}).get("text/plain") or output.get("text", ""))
if len(sys.argv) > 2:
    nbformat.write(notebook, sys.argv[2])
