/* Views of the arrays that callers pass: torch tensors, CuPy arrays and whatever else speaks DLPack
 * or the CUDA array interface. */
#ifndef HONE_CLIENT_PYTHON_ARRAYS_H_
#define HONE_CLIENT_PYTHON_ARRAYS_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "dlpack.h"

#define HONE_RANK_MAX 16

/* A view of one array; valid while the array lives and until view_release. */
typedef struct {
  DLTensor tensor;
  const DLPackExchangeAPI* api;        /* of the array's type, or NULL */
  DLManagedTensor* managed;            /* to be given back, or NULL */
  DLManagedTensorVersioned* versioned; /* the same of libraries that speak DLPack 1 */
  int read_only;
  int64_t
      shape[HONE_RANK_MAX]; /* where the view's extents are kept when the array has none to lend */
  int64_t strides[HONE_RANK_MAX];
} ArrayView;

/* 0, or -1 with an exception: TypeError for what is no array. */
int view_array(PyObject* array, ArrayView* view);
void view_release(ArrayView* view);

/* Of the address that the kernel is to read or write. */
void* view_address(const ArrayView* view);

/* "float32", for messages. */
const char* dtype_name(DLDataType dtype);
/* hone_dtype, or 0 for a type that no kernel has. */
int dtype_to_hone(DLDataType dtype);

/* The stream on which the array's library works now; NULL where it does not say. */
int view_stream(const ArrayView* view, void** stream);

int arrays_init(void);

#endif /* HONE_CLIENT_PYTHON_ARRAYS_H_ */
