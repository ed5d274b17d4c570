/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension module `foreign`, by which Python calls foreign.c. Its function `work` releases the
 * interpreter's lock while it runs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "tests/targets/foreign.h"

static void call_back(void *context, uint64_t seed)
{
	PyGILState_STATE state = PyGILState_Ensure();
	PyObject *result = PyObject_CallFunction(context, "K", (unsigned long long)seed);
	if (!result)
		Py_FatalError("an exception was thrown into C");
	Py_DECREF(result);
	PyGILState_Release(state);
}

static PyObject *begin(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	foreign_begin();
	Py_RETURN_NONE;
}

static PyObject *work(PyObject *self, PyObject *args)
{
	unsigned long long seed;
	unsigned operations;
	PyObject *back;
	(void)self;
	if (!PyArg_ParseTuple(args, "KIO", &seed, &operations, &back))
		return NULL;
	Py_BEGIN_ALLOW_THREADS;
	foreign_work(seed, operations, back == Py_None ? NULL : call_back, back);
	Py_END_ALLOW_THREADS;
	Py_RETURN_NONE;
}

static PyObject *say(PyObject *self, PyObject *none)
{
	(void)self;
	(void)none;
	foreign_say();
	Py_RETURN_NONE;
}

static PyObject *save(PyObject *self, PyObject *path)
{
	(void)self;
	const char *text = PyUnicode_AsUTF8(path);
	if (!text)
		return NULL;
	foreign_save(text);
	Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"begin", begin, METH_NOARGS, NULL},
	{"work", work, METH_VARARGS, NULL}, {"say", say, METH_NOARGS, NULL},
	{"save", save, METH_O, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
	PyModuleDef_HEAD_INIT, "foreign", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_foreign(void);
PyMODINIT_FUNC PyInit_foreign(void)
{
	return PyModule_Create(&module);
}
