# runtime/data
cadredataincludedir = $(cadreincludedir)/data
cadredatainclude_HEADERS = runtime/data/data.h
