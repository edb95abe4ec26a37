# runtime/notebook
cadrenotebookincludedir = $(cadreincludedir)/notebook
cadrenotebookinclude_HEADERS = runtime/notebook/notebook.h
