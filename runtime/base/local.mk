noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = runtime/base/base.h runtime/base/base.c
