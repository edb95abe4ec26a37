# runtime/show
cadreshowincludedir = $(cadreincludedir)/show
cadreshowinclude_HEADERS = runtime/show/show.h
