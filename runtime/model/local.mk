# runtime/model
cadremodelincludedir = $(cadreincludedir)/model
cadremodelinclude_HEADERS = runtime/model/model.h
