/* hone_client._native: clients and kernels of libhone as Python objects. Built against the limited
 * API of CPython 3.9, so that one binary serves all later versions. */
#include "arrays.h"
#include "call.h"
#include "hone.h"

/* ---- Client ------------------------------------------------------------------------------------
 */

static PyTypeObject* client_type;
static PyTypeObject* kernel_type;

static int client_init(Client* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {
      "endpoint", "connect_timeout_ms", "enable_cpu_device", "capture_dir", "pack", "tls_ca_file",
      NULL};
  hone_client_options options = {.struct_bytes = sizeof(options)};
  int timeout = 0, cpu = 0;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|zipzzz", names, &options.endpoint, &timeout,
                                   &cpu, &options.capture_dir, &options.pack_path,
                                   &options.tls_ca_file)) {
    return -1;
  }
  options.connect_timeout_ms = timeout;
  options.enable_cpu_device = cpu;
  hone_error* error = hone_client_open(&options, &self->client);
  if (error == NULL) return 0;
  raise_error(error);
  return -1;
}

static void client_dealloc(Client* self) {
  PyTypeObject* type = Py_TYPE(self);
  hone_client* client = self->client;
  if (client != NULL) {
    Py_BEGIN_ALLOW_THREADS /* it waits for the library's thread */
        hone_client_close(client);
    Py_END_ALLOW_THREADS
  }
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* client_latest_generation(Client* self, void* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(hone_latest_generation(self->client));
}

static PyObject* client_capture_status(Client* self, void* unused) {
  (void)unused;
  char text[1024];
  const size_t length = hone_capture_status(self->client, text, sizeof(text));
  const size_t shown = length < sizeof(text) ? length : sizeof(text) - 1;
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)shown, "replace");
}

static PyObject* client_daemon_error(Client* self, void* unused) {
  (void)unused;
  hone_error* error;
  Py_BEGIN_ALLOW_THREADS error = hone_client_daemon_status(self->client);
  Py_END_ALLOW_THREADS if (error == NULL) Py_RETURN_NONE;
  PyObject* text = PyUnicode_FromString(hone_error_message(error));
  hone_error_free(error);
  return text;
}

static PyObject* client_refresh(Client* self, PyObject* generation) {
  const unsigned long long wanted = PyLong_AsUnsignedLongLong(generation);
  if (PyErr_Occurred()) return NULL;
  int32_t changed = 0;
  hone_error* error;
  Py_BEGIN_ALLOW_THREADS error = hone_refresh(self->client, wanted, &changed);
  Py_END_ALLOW_THREADS return error == NULL ? PyLong_FromLong(changed) : raise_error(error);
}

/* ---- Kernel ------------------------------------------------------------------------------------
 */

/* A params value of Python as libhone takes it. `held` keeps the text alive. */
static int read_param(PyObject* name, PyObject* value, hone_param* param, PyObject* held) {
  PyObject* bytes = PyUnicode_AsUTF8String(name);
  if (bytes == NULL || PyList_Append(held, bytes) != 0) return -1;
  Py_DECREF(bytes);
  param->name = PyBytes_AsString(bytes);
  if (PyBool_Check(value)) {
    *param = hone_flag(param->name, value == Py_True);
    return 0;
  }
  if (PyUnicode_Check(value)) {
    PyObject* text = PyUnicode_AsUTF8String(value);
    if (text == NULL || PyList_Append(held, text) != 0) return -1;
    Py_DECREF(text);
    *param = hone_text(param->name, PyBytes_AsString(text));
    return 0;
  }
  PyObject* index = PyNumber_Index(value);
  if (index == NULL) {
    PyErr_Format(PyExc_TypeError, "param %R: %R is neither a size, a name nor a flag", name, value);
    return -1;
  }
  const long long size = PyLong_AsLongLong(index);
  Py_DECREF(index);
  if (size == -1 && PyErr_Occurred()) return -1;
  *param = hone_size(param->name, size);
  return 0;
}

static int read_params(PyObject* params, hone_param* out, PyObject* held) {
  PyObject *name, *value;
  Py_ssize_t position = 0;
  size_t count = 0;
  while (PyDict_Next(params, &position, &name, &value)) {
    if (count == BUFFERS_MAX) {
      PyErr_SetString(PyExc_ValueError, "a kernel has at most 64 params");
      return -1;
    }
    if (read_param(name, value, &out[count++], held) != 0) return -1;
  }
  return (int)count;
}

/* Client.kernel(template, params, digest, numerics, policy, max_wait_ms, architecture) */
static PyObject* client_kernel(Client* self, PyObject* args) {
  hone_request_options options = {sizeof(options),     NULL, NULL, NULL, 0, HONE_WITHIN_TOLERANCE,
                                  HONE_BEST_AVAILABLE, 0,    NULL};
  hone_param params[BUFFERS_MAX];
  PyObject* dictionary = NULL;
  int numerics = 0, policy = 0, max_wait_ms = 0;
  if (!PyArg_ParseTuple(args, "sO!ziiiz", &options.template_name, &PyDict_Type, &dictionary,
                        &options.template_digest, &numerics, &policy, &max_wait_ms,
                        &options.architecture)) {
    return NULL;
  }
  options.numerics = (hone_numerics)numerics;
  options.policy = (hone_policy)policy;
  options.max_wait_ms = max_wait_ms;
  options.params = params;
  PyObject* held = PyList_New(0);
  if (held == NULL) return NULL;
  const int count = read_params(dictionary, params, held);
  Kernel* kernel = NULL;
  if (count >= 0) {
    options.param_count = (size_t)count;
    hone_request* request = NULL;
    hone_error* error = hone_request_create(self->client, &options, &request);
    if (error != NULL) {
      raise_error(error);
    } else {
      kernel = (Kernel*)PyType_GenericAlloc(kernel_type, 0);
      if (kernel != NULL) {
        Py_INCREF(self);
        kernel->client = self;
        kernel->request = request;
      }
    }
  }
  Py_DECREF(held);
  return (PyObject*)kernel;
}

static PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)type, (void)args, (void)kwargs;
  PyErr_SetString(PyExc_TypeError, "kernels are made by Client.kernel");
  return NULL;
}

static void kernel_dealloc(Kernel* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(self->buffer_names);
  Py_XDECREF(self->size_names);
  Py_XDECREF(self->scalar_names);
  Py_XDECREF(self->scratch_names);
  Py_XDECREF((PyObject*)self->client);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

static PyObject* kernel_prepare(Kernel* self, PyObject* unused) {
  (void)unused;
  if (present_kernel(self, 1) == NULL) return NULL;
  Py_INCREF(self);
  return (PyObject*)self;
}

/* ---- Attributes of a kernel --------------------------------------------------------------------
 */

/* Text of the kernel in use; None before it is prepared. */
static PyObject* text_of(Kernel* self, const char* (*text)(const hone_kernel*)) {
  const hone_kernel* kernel = hone_find(self->request);
  if (kernel == NULL) Py_RETURN_NONE;
  return PyUnicode_FromString(text(kernel));
}
static PyObject* get_source(Kernel* self, void* unused) {
  (void)unused;
  return text_of(self, hone_kernel_source);
}
static PyObject* get_key(Kernel* self, void* unused) {
  (void)unused;
  return text_of(self, hone_kernel_key);
}
static PyObject* get_config(Kernel* self, void* unused) {
  (void)unused;
  return text_of(self, hone_kernel_config);
}
static PyObject* get_architecture(Kernel* self, void* unused) {
  (void)unused;
  return text_of(self, hone_kernel_architecture);
}
static PyObject* get_generation(Kernel* self, void* unused) {
  (void)unused;
  const hone_kernel* kernel = hone_find(self->request);
  if (kernel == NULL) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(hone_kernel_generation(kernel));
}
static PyObject* get_is_stale(Kernel* self, void* unused) {
  (void)unused;
  const hone_kernel* kernel = hone_find(self->request);
  if (kernel == NULL) Py_RETURN_NONE;
  return PyBool_FromLong(hone_kernel_is_stale(kernel));
}
static PyObject* get_from_pack(Kernel* self, void* unused) {
  (void)unused;
  const hone_kernel* kernel = hone_find(self->request);
  if (kernel == NULL) Py_RETURN_NONE;
  return PyBool_FromLong(hone_kernel_is_from_pack(kernel));
}

/* ---- The module --------------------------------------------------------------------------------
 */

static PyMethodDef client_methods[] = {{"kernel", (PyCFunction)client_kernel, METH_VARARGS, NULL},
                                       {"refresh", (PyCFunction)client_refresh, METH_O, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyGetSetDef client_attributes[] = {
    {"daemon_error", (getter)client_daemon_error, NULL, NULL, NULL},
    {"latest_generation", (getter)client_latest_generation, NULL, NULL, NULL},
    {"capture_status", (getter)client_capture_status, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot client_slots[] = {
    {Py_tp_new, PyType_GenericNew},    {Py_tp_init, client_init},
    {Py_tp_dealloc, client_dealloc},   {Py_tp_methods, client_methods},
    {Py_tp_getset, client_attributes}, {0, NULL}};
static PyType_Spec client_spec = {"hone_client._native.Client", sizeof(Client), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, client_slots};

static PyMethodDef kernel_methods[] = {{"prepare", (PyCFunction)kernel_prepare, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyGetSetDef kernel_attributes[] = {
    {"source", (getter)get_source, NULL, NULL, NULL},
    {"key", (getter)get_key, NULL, NULL, NULL},
    {"config", (getter)get_config, NULL, NULL, NULL},
    {"architecture", (getter)get_architecture, NULL, NULL, NULL},
    {"generation", (getter)get_generation, NULL, NULL, NULL},
    {"is_stale", (getter)get_is_stale, NULL, NULL, NULL},
    {"from_pack", (getter)get_from_pack, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot kernel_slots[] = {
    {Py_tp_new, kernel_new},         {Py_tp_dealloc, kernel_dealloc},   {Py_tp_call, kernel_call},
    {Py_tp_methods, kernel_methods}, {Py_tp_getset, kernel_attributes}, {0, NULL}};
static PyType_Spec kernel_spec = {"hone_client._native.Kernel", sizeof(Kernel), 0,
                                  Py_TPFLAGS_DEFAULT, kernel_slots};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "hone_client._native", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void) {
  client_type = (PyTypeObject*)PyType_FromSpec(&client_spec);
  kernel_type = (PyTypeObject*)PyType_FromSpec(&kernel_spec);
  PyObject* self = PyModule_Create(&module);
  if (client_type == NULL || kernel_type == NULL || self == NULL || arrays_init() != 0 ||
      call_init() != 0) {
    return NULL;
  }
  Py_INCREF(client_type);
  Py_INCREF(kernel_type);
  if (PyModule_AddObject(self, "Client", (PyObject*)client_type) != 0 ||
      PyModule_AddObject(self, "Kernel", (PyObject*)kernel_type) != 0 ||
      PyModule_AddStringConstant(self, "version", hone_version()) != 0) {
    return NULL;
  }
  return self;
}
