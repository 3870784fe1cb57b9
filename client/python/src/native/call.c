#include "call.h"

#include <string.h>

#include "arrays.h"

static PyObject *str_out, *str_stream;

int call_init(void) {
  str_out = PyUnicode_InternFromString("out");
  str_stream = PyUnicode_InternFromString("stream");
  return str_out && str_stream ? 0 : -1;
}

static PyObject* raise_code(hone_code code, const char* message) {
  PyObject* errors = PyImport_ImportModule("hone_client.errors");
  PyObject* exception =
      errors == NULL ? NULL : PyObject_CallMethod(errors, "from_code", "is", (int)code, message);
  Py_XDECREF(errors);
  if (exception == NULL) return NULL;
  PyErr_SetObject((PyObject*)Py_TYPE(exception), exception);
  Py_DECREF(exception);
  return NULL;
}

PyObject* raise_error(hone_error* error) {
  raise_code(hone_error_code(error), hone_error_message(error));
  hone_error_free(error);
  return NULL;
}

static const char* buffer_name(const hone_kernel* kernel, int32_t index) {
  return hone_kernel_buffer(kernel, index).name;
}

static PyObject* name_tuple(const hone_kernel* kernel, int32_t count,
                            const char* (*name)(const hone_kernel*, int32_t)) {
  PyObject* tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple != NULL && i < count; ++i) {
    PyObject* text = PyUnicode_InternFromString(name(kernel, i));
    if (text == NULL || PyTuple_SetItem(tuple, i, text) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* Learns what the kernel takes; 0 or -1 with an exception. */
static int learn(Kernel* self, const hone_kernel* kernel) {
  const int32_t buffers = hone_kernel_buffer_count(kernel);
  const int32_t sizes = hone_kernel_size_count(kernel);
  const int32_t scalars = hone_kernel_scalar_count(kernel);
  const int32_t scratch = hone_kernel_scratch_count(kernel);
  if (buffers > BUFFERS_MAX || sizes > BUFFERS_MAX || scalars > BUFFERS_MAX ||
      scratch > BUFFERS_MAX) {
    PyErr_SetString(PyExc_ValueError, "a kernel takes at most 64 arguments of a kind");
    return -1;
  }
  self->input_count = self->output_count = 0;
  for (int32_t i = 0; i < buffers; ++i) {
    if (hone_kernel_buffer(kernel, i).access == HONE_WRITE) {
      self->outputs[self->output_count++] = i;
    } else {
      self->inputs[self->input_count++] = i;
    }
  }
  self->on_cpu = strcmp(hone_kernel_architecture(kernel), "cpu") == 0;
  self->size_names = name_tuple(kernel, sizes, hone_kernel_size_name);
  self->scalar_names = name_tuple(kernel, scalars, hone_kernel_scalar_name);
  self->scratch_names = name_tuple(kernel, scratch, hone_kernel_scratch_name);
  self->buffer_names = name_tuple(kernel, buffers, buffer_name);
  return self->buffer_names && self->size_names && self->scalar_names && self->scratch_names ? 0
                                                                                             : -1;
}

const hone_kernel* present_kernel(Kernel* self, int prepare) {
  const hone_kernel* kernel = hone_find(self->request);
  if (kernel == NULL || prepare) {
    hone_error* error;
    Py_BEGIN_ALLOW_THREADS error = hone_prepare(self->request, &kernel);
    Py_END_ALLOW_THREADS if (error != NULL) {
      raise_error(error);
      return NULL;
    }
  }
  if (self->buffer_names == NULL && learn(self, kernel) != 0) return NULL;
  return kernel;
}

/* What a call brings, by position of the kernel. */
typedef struct {
  ArrayView views[BUFFERS_MAX];
  int viewed[BUFFERS_MAX];
  PyObject* arrays[BUFFERS_MAX]; /* borrowed */
  int64_t sizes[BUFFERS_MAX];
  int size_given[BUFFERS_MAX];
  double scalars[BUFFERS_MAX];
  int scalar_given[BUFFERS_MAX];
  PyObject* scratch[BUFFERS_MAX]; /* borrowed */
  void* scratch_addresses[BUFFERS_MAX];
  hone_buffer buffers[BUFFERS_MAX];
  PyObject* stream; /* borrowed, or NULL */
} Call;

static int index_of(PyObject* names, PyObject* name) {
  const Py_ssize_t count = PyTuple_Size(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyTuple_GetItem(names, i) == name) return (int)i; /* interned, nearly always */
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyUnicode_Compare(PyTuple_GetItem(names, i), name) == 0) return (int)i;
  }
  return -1;
}

static int give_array(Kernel* self, Call* call, int position, PyObject* array) {
  if (call->arrays[position] != NULL) {
    PyErr_Format(PyExc_TypeError, "buffer %R is given twice",
                 PyTuple_GetItem(self->buffer_names, position));
    return -1;
  }
  call->arrays[position] = array;
  return 0;
}

static int give_outputs(Kernel* self, Call* call, PyObject* out) {
  if (!PyTuple_Check(out) && !PyList_Check(out)) {
    if (self->output_count == 1) return give_array(self, call, self->outputs[0], out);
  } else if (PySequence_Size(out) == self->output_count) {
    for (int i = 0; i < self->output_count; ++i) {
      PyObject* array = PySequence_GetItem(out, i);
      if (array == NULL) return -1;
      const int given = give_array(self, call, self->outputs[i], array);
      Py_DECREF(array); /* the sequence holds it */
      if (given != 0) return -1;
    }
    return 0;
  }
  PyErr_Format(PyExc_TypeError, "out: the kernel writes %d arrays", self->output_count);
  return -1;
}

static int give_keyword(Kernel* self, Call* call, PyObject* name, PyObject* value) {
  int position = index_of(self->buffer_names, name);
  if (position >= 0) return give_array(self, call, position, value);
  position = index_of(self->size_names, name);
  if (position >= 0) {
    call->sizes[position] = PyLong_AsLongLong(value);
    call->size_given[position] = 1;
    return call->sizes[position] == -1 && PyErr_Occurred() ? -1 : 0;
  }
  position = index_of(self->scalar_names, name);
  if (position >= 0) {
    call->scalars[position] = PyFloat_AsDouble(value);
    call->scalar_given[position] = 1;
    return call->scalars[position] == -1.0 && PyErr_Occurred() ? -1 : 0;
  }
  position = index_of(self->scratch_names, name);
  if (position >= 0) {
    call->scratch[position] = value;
    return 0;
  }
  PyErr_Format(PyExc_TypeError,
               "the kernel takes no %R; it takes the arrays %R, the sizes %R, the scalars %R and "
               "the scratch %R",
               name, self->buffer_names, self->size_names, self->scalar_names, self->scratch_names);
  return -1;
}

static int read_arguments(Kernel* self, PyObject* args, PyObject* kwargs, Call* call) {
  const Py_ssize_t positional = PyTuple_Size(args);
  if (positional > self->input_count) {
    PyErr_Format(
        PyExc_TypeError,
        "%zd arrays are given by position, the kernel reads %d of %R; outputs are given by "
        "name or as out",
        positional, self->input_count, self->buffer_names);
    return -1;
  }
  for (Py_ssize_t i = 0; i < positional; ++i) {
    call->arrays[self->inputs[i]] = PyTuple_GetItem(args, i);
  }
  if (kwargs == NULL) return 0;
  PyObject *name, *value;
  Py_ssize_t cursor = 0;
  while (PyDict_Next(kwargs, &cursor, &name, &value)) {
    int given = 0;
    if (name == str_out) {
      given = give_outputs(self, call, value);
    } else if (name == str_stream) {
      if (value != Py_None) call->stream = value;
    } else {
      given = give_keyword(self, call, name, value);
    }
    if (given != 0) return -1;
  }
  return 0;
}

static int check_array(Kernel* self, const hone_kernel* kernel, Call* call, int position,
                       int32_t* device) {
  const DLTensor* tensor = &call->views[position].tensor;
  PyObject* name = PyTuple_GetItem(self->buffer_names, position);
  const hone_buffer_info info = hone_kernel_buffer(kernel, position);
  if (dtype_to_hone(tensor->dtype) != (int)info.dtype) {
    PyErr_Format(PyExc_TypeError, "array %R is of %s, the kernel takes %s", name,
                 dtype_name(tensor->dtype), hone_dtype_name(info.dtype));
    return -1;
  }
  if (tensor->ndim != info.rank) {
    PyErr_Format(PyExc_ValueError, "array %R has %d dimensions, the kernel takes %d", name,
                 tensor->ndim, info.rank);
    return -1;
  }
  if (call->views[position].read_only && info.access != HONE_READ) {
    PyErr_Format(PyExc_ValueError, "array %R is read-only, and the kernel writes it", name);
    return -1;
  }
  const int on_gpu =
      tensor->device.device_type == kDLCUDA || tensor->device.device_type == kDLCUDAManaged;
  if (on_gpu == self->on_cpu) {
    PyErr_Format(PyExc_ValueError, "array %R is %s a GPU, the kernel runs on %s", name,
                 on_gpu ? "on" : "not on", hone_kernel_architecture(kernel));
    return -1;
  }
  if (self->on_cpu || tensor->device.device_type == kDLCUDAManaged ||
      tensor->device.device_id < 0) {
    return 0;
  }
  if (*device >= 0 && *device != tensor->device.device_id) {
    PyErr_Format(PyExc_ValueError, "array %R is on device %d, others are on device %d", name,
                 tensor->device.device_id, *device);
    return -1;
  }
  *device = tensor->device.device_id;
  return 0;
}

/* Views all arrays; `device` becomes the one they are on, or stays -1. */
static int view_arrays(Kernel* self, const hone_kernel* kernel, Call* call, int32_t* device) {
  const int32_t count = hone_kernel_buffer_count(kernel);
  for (int32_t i = 0; i < count; ++i) {
    hone_buffer* buffer = &call->buffers[i];
    PyObject* array = call->arrays[i];
    if (array == NULL || array == Py_None) {
      if (!hone_kernel_buffer(kernel, i).optional) {
        PyErr_Format(PyExc_TypeError, "array %R is missing",
                     PyTuple_GetItem(self->buffer_names, i));
        return -1;
      }
      memset(buffer, 0, sizeof(*buffer));
      continue;
    }
    ArrayView* view = &call->views[i];
    if (view_array(array, view) != 0) return -1;
    call->viewed[i] = 1;
    if (check_array(self, kernel, call, i, device) != 0) return -1;
    buffer->address = view_address(view);
    buffer->shape = view->tensor.shape;
    buffer->strides = view->tensor.strides;
    buffer->rank = view->tensor.ndim;
  }
  return 0;
}

static int read_sizes(Kernel* self, const hone_kernel* kernel, Call* call) {
  const int32_t count = hone_kernel_size_count(kernel);
  if (count == 0) return 0;
  int64_t found[BUFFERS_MAX];
  for (int32_t i = 0; i < count; ++i) found[i] = INT64_MIN;
  hone_error* error = hone_sizes_from_shapes(kernel, call->buffers, found);
  if (error != NULL) {
    raise_error(error);
    return -1;
  }
  for (int32_t i = 0; i < count; ++i) {
    if (call->size_given[i]) {
      if (found[i] == INT64_MIN || found[i] == call->sizes[i]) continue;
      PyErr_Format(PyExc_ValueError, "size %R is given as %lld, the arrays say %lld",
                   PyTuple_GetItem(self->size_names, i), (long long)call->sizes[i],
                   (long long)found[i]);
      return -1;
    }
    if (found[i] == INT64_MIN) {
      PyErr_Format(PyExc_TypeError, "size %R is no array's extent; give it by name",
                   PyTuple_GetItem(self->size_names, i));
      return -1;
    }
    call->sizes[i] = found[i];
  }
  return 0;
}

static int check_scalars(Kernel* self, const hone_kernel* kernel, const Call* call) {
  const int32_t count = hone_kernel_scalar_count(kernel);
  for (int32_t i = 0; i < count; ++i) {
    if (call->scalar_given[i]) continue;
    PyErr_Format(PyExc_TypeError, "scalar %R is missing", PyTuple_GetItem(self->scalar_names, i));
    return -1;
  }
  return 0;
}

/* Scratch as an array of the caller's, or made in the library of the kernel's first array. `made`
 * keeps that alive until the launch is enqueued; its library's allocator is ordered by stream. */
static int give_scratch(Kernel* self, const hone_kernel* kernel, Call* call,
                        const hone_arguments* arguments, PyObject* made) {
  const int32_t count = hone_kernel_scratch_count(kernel);
  for (int32_t i = 0; i < count; ++i) {
    int64_t bytes = 0;
    hone_error* error = hone_kernel_scratch_bytes(kernel, arguments, i, &bytes);
    if (error != NULL) {
      raise_error(error);
      return -1;
    }
    call->scratch_addresses[i] = NULL;
    if (bytes == 0) continue;
    PyObject* given = call->scratch[i];
    if (given == NULL) {
      PyObject* module = PyImport_ImportModule("hone_client.scratch");
      given = module == NULL
                  ? NULL
                  : PyObject_CallMethod(module, "allocate", "OOL", call->arrays[self->inputs[0]],
                                        PyTuple_GetItem(self->scratch_names, i), (long long)bytes);
      Py_XDECREF(module);
      if (given == NULL || PyList_Append(made, given) != 0) return -1;
      Py_DECREF(given);
    }
    ArrayView view;
    if (view_array(given, &view) != 0) return -1;
    int64_t held = view.tensor.dtype.bits / 8;
    for (int d = 0; d < view.tensor.ndim; ++d) held *= view.tensor.shape[d];
    call->scratch_addresses[i] = view_address(&view);
    view_release(&view);
    if (held >= bytes) continue;
    PyErr_Format(PyExc_ValueError, "scratch %R has %lld bytes, the launch needs %lld",
                 PyTuple_GetItem(self->scratch_names, i), (long long)held, (long long)bytes);
    return -1;
  }
  return 0;
}

static int read_stream(PyObject* given, void** stream) {
  static const char* attributes[] = {"cuda_stream", "ptr"}; /* torch, CuPy */
  PyObject* handle = given;
  Py_INCREF(handle);
  for (size_t i = 0; i < 2 && !PyLong_Check(handle); ++i) {
    PyObject* found = PyObject_GetAttrString(handle, attributes[i]);
    if (found == NULL) {
      PyErr_Clear();
      continue;
    }
    Py_DECREF(handle);
    handle = found;
  }
  if (!PyLong_Check(handle)) {
    PyErr_Format(PyExc_TypeError,
                 "stream %R is neither a handle (an integer) nor a torch or CuPy stream", given);
    Py_DECREF(handle);
    return -1;
  }
  *stream = PyLong_AsVoidPtr(handle);
  Py_DECREF(handle);
  return PyErr_Occurred() ? -1 : 0;
}

/* The stream to launch on: the caller's, else that of the arrays' library, else the default one. */
static int choose_stream(Call* call, int32_t buffer_count, void** stream) {
  *stream = NULL;
  if (call->stream != NULL) return read_stream(call->stream, stream);
  for (int32_t i = 0; i < buffer_count; ++i) {
    if (call->viewed[i] && call->views[i].api != NULL) {
      return view_stream(&call->views[i], stream);
    }
  }
  return 0;
}

/* The same before anything is known of the kernel: 1 when it was found. */
static int stream_of(PyObject* array, void** stream) {
  ArrayView view;
  if (view_array(array, &view) != 0) {
    PyErr_Clear();
    return 0;
  }
  const int found = view.api != NULL && view_stream(&view, stream) == 0;
  view_release(&view);
  return found;
}

/* Fetching and loading a kernel may block, which a capture must not wait for. */
static int refuse_under_capture(PyObject* args, PyObject* kwargs) {
  void* stream = NULL;
  PyObject* given = kwargs == NULL ? NULL : PyDict_GetItem(kwargs, str_stream);
  int found = 0;
  if (given != NULL && given != Py_None) {
    if (read_stream(given, &stream) != 0) return -1;
    found = 1;
  }
  for (Py_ssize_t i = 0; !found && i < PyTuple_Size(args); ++i) {
    found = stream_of(PyTuple_GetItem(args, i), &stream);
  }
  PyObject *name, *value;
  Py_ssize_t cursor = 0;
  while (!found && kwargs != NULL && PyDict_Next(kwargs, &cursor, &name, &value)) {
    found = stream_of(value, &stream);
  }
  if (!hone_is_capturing(stream)) return 0;
  raise_code(HONE_FAILED_PRECONDITION,
             "the kernel is not prepared, and fetching it would make a stream capture wait; call "
             "prepare() before the capture");
  return -1;
}

/* Launches with the arrays' device current, as the arrays' own library would. */
static hone_error* launch(const Kernel* self, const hone_kernel* kernel,
                          const hone_arguments* arguments, void* stream, int32_t device) {
  if (self->on_cpu) return hone_launch_on_cpu(kernel, arguments);
  const int32_t present = device < 0 ? -1 : hone_current_device();
  if (present == device) return hone_launch(kernel, arguments, stream);
  hone_error* error = hone_use_device(device);
  if (error == NULL) error = hone_launch(kernel, arguments, stream);
  if (present >= 0) hone_error_free(hone_use_device(present));
  return error;
}

static int run(Kernel* self, const hone_kernel* kernel, Call* call, PyObject* made) {
  int32_t device = -1;
  void* stream = NULL;
  if (view_arrays(self, kernel, call, &device) != 0 || read_sizes(self, kernel, call) != 0 ||
      check_scalars(self, kernel, call) != 0 ||
      choose_stream(call, hone_kernel_buffer_count(kernel), &stream) != 0) {
    return -1;
  }
  const hone_arguments arguments = {call->sizes, call->buffers, call->scalars,
                                    call->scratch_addresses};
  if (made != NULL && give_scratch(self, kernel, call, &arguments, made) != 0) return -1;
  hone_error* error;
  if (self->on_cpu) {
    Py_BEGIN_ALLOW_THREADS /* it returns when the kernel has ended */
        error = launch(self, kernel, &arguments, stream, device);
    Py_END_ALLOW_THREADS
  } else {
    error = launch(self, kernel, &arguments, stream, device);
  }
  if (error == NULL) return 0;
  raise_error(error);
  return -1;
}

static void clear(Call* call, int32_t buffers, int32_t sizes, int32_t scalars, int32_t scratch) {
  for (int32_t i = 0; i < buffers; ++i) {
    call->viewed[i] = 0;
    call->arrays[i] = NULL;
  }
  for (int32_t i = 0; i < sizes; ++i) call->size_given[i] = 0;
  for (int32_t i = 0; i < scalars; ++i) call->scalar_given[i] = 0;
  for (int32_t i = 0; i < scratch; ++i) call->scratch[i] = NULL;
  call->stream = NULL;
}

PyObject* kernel_call(Kernel* self, PyObject* args, PyObject* kwargs) {
  if (hone_find(self->request) == NULL && refuse_under_capture(args, kwargs) != 0) return NULL;
  const hone_kernel* kernel = present_kernel(self, 0);
  if (kernel == NULL) return NULL;
  const int32_t buffers = hone_kernel_buffer_count(kernel);
  const int32_t scratch = hone_kernel_scratch_count(kernel);
  Call call; /* large, so only what the kernel has is set */
  clear(&call, buffers, hone_kernel_size_count(kernel), hone_kernel_scalar_count(kernel), scratch);
  PyObject* made = NULL;
  int result = read_arguments(self, args, kwargs, &call);
  if (result == 0 && scratch > 0) {
    made = PyList_New(0);
    if (made == NULL) result = -1;
  }
  if (result == 0) result = run(self, kernel, &call, made);
  for (int32_t i = 0; i < buffers; ++i) {
    if (call.viewed[i]) view_release(&call.views[i]);
  }
  Py_XDECREF(made);
  if (result != 0) return NULL;
  PyObject* returned = self->output_count == 1 ? call.arrays[self->outputs[0]] : Py_None;
  if (returned == NULL) returned = Py_None;
  Py_INCREF(returned);
  return returned;
}
