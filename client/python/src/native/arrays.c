#include "arrays.h"

#include <string.h>

#include "hone.h"

static PyObject* str_exchange_api;
static PyObject* str_cuda_array_interface;
static PyObject* str_dlpack;
static PyObject* str_array_interface;
static PyObject* no_arguments;   /* () */
static PyObject* of_version_one; /* {"max_version": (1, 0)} */

/* The last type seen with an exchange table, so that a loop over tensors of one library looks it up
 * once. Types are kept alive; guarded by the GIL. */
static PyTypeObject* last_type;
static const DLPackExchangeAPI* last_api;

int arrays_init(void) {
  str_exchange_api = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  str_cuda_array_interface = PyUnicode_InternFromString("__cuda_array_interface__");
  str_dlpack = PyUnicode_InternFromString("__dlpack__");
  str_array_interface = PyUnicode_InternFromString("__array_interface__");
  no_arguments = PyTuple_New(0);
  of_version_one = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
  return str_exchange_api && str_cuda_array_interface && str_dlpack && str_array_interface &&
                 no_arguments && of_version_one
             ? 0
             : -1;
}

/* The type's table; NULL without an exception where it has none that we can read. */
static const DLPackExchangeAPI* exchange_api(PyTypeObject* type) {
  if (type == last_type) return last_api;
  const DLPackExchangeAPI* api = NULL;
  PyObject* published = PyObject_GetAttr((PyObject*)type, str_exchange_api);
  if (published == NULL) {
    PyErr_Clear();
  } else if (PyCapsule_CheckExact(published)) {
    api = (const DLPackExchangeAPI*)PyCapsule_GetPointer(published, "dlpack_exchange_api");
    if (api == NULL) PyErr_Clear();
  }
  Py_XDECREF(published);
  while (api != NULL && api->header.version.major != 1) {
    api = (const DLPackExchangeAPI*)api->header.prev_api;
  }
  if (api != NULL && api->dltensor_from_py_object_no_sync == NULL) api = NULL;
  Py_INCREF(type);
  Py_XDECREF(last_type);
  last_type = type;
  last_api = api;
  return api;
}

/* Of "<f4" and its like; 0 or -1 with an exception. */
static int parse_typestr(const char* text, DLDataType* dtype) {
  static const struct {
    char kind;
    uint8_t code;
  } kinds[] = {{'i', kDLInt}, {'u', kDLUInt}, {'f', kDLFloat}, {'b', kDLBool}};
  const size_t length = strlen(text);
  if ((length == 3 || length == 4) && text[0] != '>') {
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); ++i) {
      if (text[1] != kinds[i].kind) continue;
      dtype->code = kinds[i].code;
      dtype->bits = (uint8_t)(8 * atoi(text + 2));
      dtype->lanes = 1;
      return 0;
    }
  }
  PyErr_Format(PyExc_TypeError, "element type '%s' of an array interface is not supported", text);
  return -1;
}

/* Reads a tuple of integers; its length, or -1 with an exception. */
static int read_extents(PyObject* tuple, int64_t* out) {
  const Py_ssize_t rank = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
  if (rank < 0 || rank > HONE_RANK_MAX) {
    PyErr_Format(PyExc_TypeError, "an array has at most %d dimensions", HONE_RANK_MAX);
    return -1;
  }
  for (Py_ssize_t i = 0; i < rank; ++i) {
    out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (out[i] == -1 && PyErr_Occurred()) return -1;
  }
  return (int)rank;
}

/* An item of a dictionary, borrowed; NULL where it is missing or None. */
static PyObject* item_of(PyObject* dictionary, const char* name) {
  PyObject* item = PyDict_GetItemString(dictionary, name);
  return item == Py_None ? NULL : item;
}

/* Of __cuda_array_interface__ or numpy's __array_interface__, which it is made after. */
static int view_interface(PyObject* interface, int32_t device_type, ArrayView* view) {
  DLTensor* tensor = &view->tensor;
  PyObject* data = PyDict_Check(interface) ? item_of(interface, "data") : NULL;
  PyObject* shape = data == NULL ? NULL : item_of(interface, "shape");
  PyObject* typestr = data == NULL ? NULL : item_of(interface, "typestr");
  if (shape == NULL || typestr == NULL || !PyTuple_Check(data) || PyTuple_Size(data) < 1) {
    PyErr_SetString(PyExc_TypeError, "the array interface lacks data, shape or typestr");
    return -1;
  }
  PyObject* text = PyUnicode_AsUTF8String(typestr);
  if (text == NULL) return -1;
  const int parsed = parse_typestr(PyBytes_AsString(text), &tensor->dtype);
  Py_DECREF(text);
  if (parsed != 0) return -1;
  tensor->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
  if (tensor->data == NULL && PyErr_Occurred()) return -1;
  view->read_only = PyTuple_Size(data) > 1 && PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
  tensor->ndim = read_extents(shape, view->shape);
  if (tensor->ndim < 0) return -1;
  tensor->shape = view->shape;
  PyObject* strides = item_of(interface, "strides");
  if (strides != NULL) {
    if (read_extents(strides, view->strides) != tensor->ndim) {
      if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "the array interface: strides do not fit the shape");
      }
      return -1;
    }
    const int64_t element_bytes = tensor->dtype.bits / 8;
    for (int i = 0; i < tensor->ndim; ++i) {
      if (view->strides[i] % element_bytes != 0) {
        PyErr_SetString(PyExc_ValueError, "a stride is not a multiple of the element's size");
        return -1;
      }
      view->strides[i] /= element_bytes;
    }
    tensor->strides = view->strides;
  }
  tensor->device.device_type = device_type;
  tensor->device.device_id = -1; /* the interface does not say */
  return 0;
}

/* Arrays that may not be written are shown to those only who know version 1. */
static PyObject* capsule_of(PyObject* array) {
  PyObject* method = PyObject_GetAttr(array, str_dlpack);
  if (method == NULL) return NULL;
  PyObject* capsule = PyObject_Call(method, no_arguments, of_version_one);
  if (capsule == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear(); /* an older library, which takes no max_version */
    capsule = PyObject_CallObject(method, NULL);
  }
  Py_DECREF(method);
  return capsule;
}

static int view_versioned(PyObject* capsule, ArrayView* view) {
  DLManagedTensorVersioned* versioned =
      (DLManagedTensorVersioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (versioned == NULL) return -1;
  if (versioned->version.major != 1) {
    PyErr_Format(PyExc_BufferError, "an array of DLPack version %u; 1 was asked for",
                 (unsigned)versioned->version.major);
    return -1;
  }
  PyCapsule_SetName(capsule, "used_dltensor_versioned");
  view->versioned = versioned;
  view->tensor = versioned->dl_tensor;
  view->read_only = (versioned->flags & kDLReadOnly) != 0;
  return 0;
}

static int view_capsule(PyObject* array, ArrayView* view) {
  PyObject* capsule = capsule_of(array);
  if (capsule == NULL) return -1;
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const int result = view_versioned(capsule, view);
    Py_DECREF(capsule);
    return result;
  }
  DLManagedTensor* managed = (DLManagedTensor*)PyCapsule_GetPointer(capsule, "dltensor");
  if (managed == NULL) {
    Py_DECREF(capsule);
    return -1;
  }
  /* Ours to give back from now on. */
  PyCapsule_SetName(capsule, "used_dltensor");
  Py_DECREF(capsule);
  view->managed = managed;
  view->tensor = managed->dl_tensor;
  return 0;
}

/* What numpy before 2.1 does not show by DLPack: read-only arrays. The error set stays for others.
 */
static int view_read_only(PyObject* array, ArrayView* view) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* interface = PyObject_GetAttr(array, str_array_interface);
  const int result = interface == NULL ? -1 : view_interface(interface, kDLCPU, view);
  Py_XDECREF(interface);
  if (result == 0) {
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
  } else {
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
  }
  return result;
}

int view_array(PyObject* array, ArrayView* view) {
  view->managed = NULL;
  view->versioned = NULL;
  view->read_only = 0;
  view->api = exchange_api(Py_TYPE(array));
  if (view->api != NULL) return view->api->dltensor_from_py_object_no_sync(array, &view->tensor);
  memset(&view->tensor, 0, sizeof(view->tensor));
  PyObject* interface = PyObject_GetAttr(array, str_cuda_array_interface);
  if (interface != NULL) {
    const int result = view_interface(interface, kDLCUDA, view);
    Py_DECREF(interface);
    return result;
  }
  PyErr_Clear(); /* torch raises for tensors that are not on a GPU, others have no such attribute */
  if (PyObject_HasAttr(array, str_dlpack)) {
    const int result = view_capsule(array, view);
    if (result == 0 || !PyErr_ExceptionMatches(PyExc_BufferError)) return result;
    return view_read_only(array, view);
  }
  PyErr_Format(PyExc_TypeError,
               "%R is no array: it has neither __dlpack__ nor __cuda_array_interface__",
               (PyObject*)Py_TYPE(array));
  return -1;
}

void view_release(ArrayView* view) {
  if (view->managed != NULL && view->managed->deleter != NULL) {
    view->managed->deleter(view->managed);
  }
  view->managed = NULL;
  if (view->versioned != NULL && view->versioned->deleter != NULL) {
    view->versioned->deleter(view->versioned);
  }
  view->versioned = NULL;
}

void* view_address(const ArrayView* view) {
  return (char*)view->tensor.data + view->tensor.byte_offset;
}

int view_stream(const ArrayView* view, void** stream) {
  *stream = NULL;
  const DLDevice device = view->tensor.device;
  if (view->api == NULL || view->api->current_work_stream == NULL ||
      device.device_type != kDLCUDA) {
    return 0;
  }
  return view->api->current_work_stream(device.device_type, device.device_id, stream);
}

static const struct {
  uint8_t code;
  uint8_t bits;
  int hone;
  const char* name;
} dtypes[] = {{kDLFloat, 32, HONE_F32, "float32"},
              {kDLBfloat, 16, HONE_BF16, "bfloat16"},
              {kDLFloat, 16, HONE_F16, "float16"},
              {kDLFloat, 64, HONE_F64, "float64"},
              {kDLFloat8_e4m3fn, 8, HONE_F8E4M3, "float8_e4m3fn"},
              {kDLFloat8_e5m2, 8, HONE_F8E5M2, "float8_e5m2"},
              {kDLInt, 64, HONE_I64, "int64"},
              {kDLInt, 32, HONE_I32, "int32"},
              {kDLInt, 16, HONE_I16, "int16"},
              {kDLInt, 8, HONE_I8, "int8"},
              {kDLUInt, 64, HONE_U64, "uint64"},
              {kDLUInt, 32, HONE_U32, "uint32"},
              {kDLUInt, 16, HONE_U16, "uint16"},
              {kDLUInt, 8, HONE_U8, "uint8"},
              {kDLBool, 8, HONE_BOOL, "bool"}};

int dtype_to_hone(DLDataType dtype) {
  if (dtype.lanes != 1) return 0;
  for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); ++i) {
    if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits) return dtypes[i].hone;
  }
  return 0;
}

const char* dtype_name(DLDataType dtype) {
  for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); ++i) {
    if (dtypes[i].code == dtype.code && dtypes[i].bits == dtype.bits) return dtypes[i].name;
  }
  return "an unknown type";
}
