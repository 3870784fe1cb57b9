/* The objects of this module, and calling a kernel. */
#ifndef HONE_CLIENT_PYTHON_CALL_H_
#define HONE_CLIENT_PYTHON_CALL_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "hone.h"

/* Of arguments of a kind. */
#define BUFFERS_MAX 64

typedef struct {
  PyObject_HEAD hone_client* client;
} Client;

typedef struct {
  PyObject_HEAD Client* client; /* keeps the request alive */
  hone_request* request;
  /* Of the first kernel found; the same for all later ones. NULL until then. */
  PyObject* buffer_names; /* tuples of interned strings */
  PyObject* size_names;
  PyObject* scalar_names;
  PyObject* scratch_names;
  int input_count, output_count;
  int inputs[BUFFERS_MAX], outputs[BUFFERS_MAX]; /* positions of buffers */
  int on_cpu;
} Kernel;

int call_init(void);

/* Makes an exception of an error, which is freed. Returns NULL. */
PyObject* raise_error(hone_error* error);

/* The kernel to use now, fetched if there is none yet or `prepare` is set; NULL with an exception.
 */
const hone_kernel* present_kernel(Kernel* self, int prepare);

/* tp_call. */
PyObject* kernel_call(Kernel* self, PyObject* args, PyObject* kwargs);

#endif /* HONE_CLIENT_PYTHON_CALL_H_ */
