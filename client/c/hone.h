/* libhone: tuned GPU kernels in an inference server's process.
 *
 *   hone_client* client = NULL;
 *   hone_client_open(NULL, &client);                          // does not wait for the daemon
 *   hone_param params[] = {hone_text("T", "F32"), hone_size("n", 1 << 26)};
 *   hone_request_options options = HONE_REQUEST_OPTIONS("copy_1d", params, 2);
 *   hone_request* request = NULL;
 *   hone_request_create(client, &options, &request);
 *   const hone_kernel* kernel = NULL;
 *   hone_prepare(request, &kernel);                           // blocks: daemon, module loading
 *   ...
 *   kernel = hone_find(request);                              // on the serving path: never blocks
 *   int64_t sizes[] = {n};                                    // in the kernel's order
 *   hone_buffer buffers[] = {{dst}, {src}};
 *   hone_arguments arguments = {.sizes = sizes, .buffers = buffers};
 *   hone_error* error = hone_launch(kernel, &arguments, stream);
 *
 * Every function that can fail returns NULL or an error that the caller frees with hone_error_free;
 * outputs are set on success only. Strings are UTF-8 and copied; those returned live as long as
 * what they belong to. All functions are thread-safe; hone_find, hone_launch and hone_kernel_* take
 * no lock and allocate nothing when they succeed (a launch that is recorded does, see
 * hone_client_options.capture_dir). The library exports hone_* and nothing else, so
 * that it works beside any gRPC, protobuf or C++ runtime of the host.
 *
 * After fork a child may use its parent's clients and requests: it connects anew when it prepares a
 * kernel. CUDA itself cannot be used in a child of a process that used it.
 */
#ifndef HONE_CLIENT_C_HONE_H_
#define HONE_CLIENT_C_HONE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HONE_API __attribute__((visibility("default")))

/* ---- Errors ------------------------------------------------------------------------------------
 */

/* As in gRPC. */
typedef enum hone_code {
  HONE_OK = 0,
  HONE_CANCELLED = 1,
  HONE_UNKNOWN = 2,
  HONE_INVALID_ARGUMENT = 3,
  HONE_DEADLINE_EXCEEDED = 4,
  HONE_NOT_FOUND = 5,
  HONE_ALREADY_EXISTS = 6,
  HONE_PERMISSION_DENIED = 7,
  HONE_RESOURCE_EXHAUSTED = 8,
  HONE_FAILED_PRECONDITION = 9,
  HONE_ABORTED = 10,
  HONE_OUT_OF_RANGE = 11,
  HONE_UNIMPLEMENTED = 12,
  HONE_INTERNAL = 13,
  HONE_UNAVAILABLE = 14,
  HONE_DATA_LOSS = 15,
  HONE_UNAUTHENTICATED = 16
} hone_code;

typedef struct hone_error hone_error;

/* HONE_OK for NULL. */
HONE_API hone_code hone_error_code(const hone_error* error);
/* Names the field, the value and what would be right. Empty for NULL. */
HONE_API const char* hone_error_message(const hone_error* error);
/* NULL is ignored. */
HONE_API void hone_error_free(hone_error* error);

/* "0.1.0". */
HONE_API const char* hone_version(void);

/* ---- Clients -----------------------------------------------------------------------------------
 */

typedef struct hone_client hone_client;

typedef struct hone_client_options {
  size_t struct_bytes; /* sizeof(hone_client_options), so that later versions may add fields */
  /* "unix:/path/to/socket" or "host:port"; NULL: $HONE_ENDPOINT, else the first of the daemon's
   * usual sockets that exists. */
  const char* endpoint;
  /* How long hone_prepare waits for a daemon that cannot be reached. 0: 5,000. */
  int32_t connect_timeout_ms;
  /* 1: kernels of the CPU reference device may run in this process. They are code that the daemon
   * sent. */
  int32_t enable_cpu_device;
  /* Directory in which launches are recorded as problems for `hone tune --from`, made if it is not
   * there. NULL: $HONE_CAPTURE; nothing is recorded when both are missing or empty. A process
   * writes one file, at most HONE_CAPTURE_MAX_MB (64) megabytes of 10^6 bytes; with
   * HONE_CAPTURE_CONTENTS=1 the contents of the buffers that a kernel reads too, which waits for
   * the stream at the first launch of a problem, but never while it is captured. */
  const char* capture_dir;
  /* A kernel pack (`hone pack export`), which answers hone_prepare while the daemon cannot be
   * reached. NULL: $HONE_PACK; empty: none. */
  const char* pack_path;
  /* For "host:port": PEM file with the authorities that may have issued the daemon's certificate,
   * which must be for `host`; "system": those that the system trusts. The connection is then TLS,
   * with the host's OpenSSL 3 (libssl.so.3). NULL or "": $HONE_TLS_CA_FILE for "host:port"; where
   * that is not set, plain text, which everyone on the way can read and change. */
  const char* tls_ca_file;
} hone_client_options;

/* `options` NULL: all defaults. Does not connect, so that a server may start before its daemon.
 * HONE_INVALID_ARGUMENT for an endpoint that cannot be one, and for a tls_ca_file without
 * certificates or for a unix socket; HONE_FAILED_PRECONDITION for TLS on a host without OpenSSL 3;
 * the text says what to install. A pack that is missing, damaged or newer than this library is an
 * error that names it: HONE_NOT_FOUND, HONE_DATA_LOSS, HONE_INVALID_ARGUMENT,
 * HONE_FAILED_PRECONDITION. A pack stays open: replace it by renaming. */
HONE_API hone_error* hone_client_open(const hone_client_options* options, hone_client** client);
/* Frees the client with its requests and kernels, none of which may be in use. Modules stay loaded
 * while the process lives, so that captured graphs stay valid. NULL is ignored. */
HONE_API void hone_client_close(hone_client* client);

/* What becomes of recorded launches, for people: "recording into FILE: 12 problems, ...",
 * "full: ..." (new problems are not recorded any more, the known ones still counted), "stopped:
 * ..." with the reason, which is also told once on standard error; "" when nothing is to be
 * recorded. No launch fails because of it. Writes at most `text_bytes` bytes into `text`, a final
 * NUL among them, and returns the length of the whole text without it, as snprintf does. */
HONE_API size_t hone_capture_status(const hone_client* client, char* text, size_t text_bytes);

/* NULL when the daemon answers, else why it does not, for the caller to free. Takes 0.2 s
 * at most, to try once. */
HONE_API hone_error* hone_client_daemon_status(hone_client* client);

/* ---- Packs -------------------------------------------------------------------------------------
 *
 * With a pack hone_prepare does not need the daemon. It asks the daemon first; what the daemon
 * answers, errors included, is the answer. When there is none to connect to the pack answers at
 * once, and when one has stopped or does not answer, after connect_timeout_ms. The pack has to have
 * the same template, numerics and values of all parameters but dynamic sizes; of several kernels
 * that one answers whose dynamic sizes are nearest, as "NEAREST" unless they are equal. Kernels
 * timed on another device of the same architecture answer as stale where there is none for this
 * one.
 *
 * The daemon is found again by itself. What it then has for the requests that the pack answered is
 * fetched, loaded and announced, and used after hone_refresh; it takes the place of the pack's
 * kernel unless it is a default, or another problem's winner where the pack has the problem's own.
 */

/* ---- Requests and kernels ----------------------------------------------------------------------
 */

typedef enum hone_param_kind {
  HONE_PARAM_SIZE = 0,
  HONE_PARAM_TEXT = 1,
  HONE_PARAM_FLAG = 2
} hone_param_kind;

/* A template's parameter: a size, a name (data type or choice), a flag (0 or 1). */
typedef struct hone_param {
  const char* name;
  hone_param_kind kind;
  int64_t integer;  /* of sizes and flags */
  const char* text; /* of names */
} hone_param;

static inline hone_param hone_size(const char* name, int64_t value) {
  hone_param param = {name, HONE_PARAM_SIZE, value, NULL};
  return param;
}
static inline hone_param hone_text(const char* name, const char* value) {
  hone_param param = {name, HONE_PARAM_TEXT, 0, value};
  return param;
}
static inline hone_param hone_flag(const char* name, int value) {
  hone_param param = {name, HONE_PARAM_FLAG, value, NULL};
  return param;
}

/* How hone_prepare asks the daemon when it has no tuned kernel. */
typedef enum hone_policy {
  HONE_BEST_AVAILABLE = 0, /* the best there is, compiled if need be */
  HONE_WAIT_TUNED = 1,     /* starts or joins a tune; needs the role of a tuner */
  HONE_NO_WAIT = 2,        /* nothing is compiled for this call */
  HONE_FROZEN = 3          /* nothing is compiled or tuned at all; a miss is recorded */
} hone_policy;

typedef enum hone_numerics {
  HONE_WITHIN_TOLERANCE = 0,
  HONE_SAME_BITS_AS_DEFAULT = 1 /* only configs whose outputs equal the default's bit for bit */
} hone_numerics;

typedef struct hone_request_options {
  size_t struct_bytes; /* sizeof(hone_request_options) */
  const char* template_name;
  const char* template_digest; /* in hex; NULL: the newest under the name */
  const hone_param* params;
  size_t param_count;
  hone_numerics numerics;
  hone_policy policy;
  /* Bounds the daemon's part of hone_prepare. 0: 30,000. */
  int32_t max_wait_ms;
  /* "sm_90a", "cpu". NULL: the device of the CUDA context that is current when the request is made;
   * where no context is current, the daemon's first device. */
  const char* architecture;
} hone_request_options;

#define HONE_REQUEST_OPTIONS(name, params, count)                                         \
  {                                                                                       \
    sizeof(hone_request_options), (name), NULL, (params), (count), HONE_WITHIN_TOLERANCE, \
        HONE_BEST_AVAILABLE, 0, NULL                                                      \
  }

/* One template and problem on one kind of device. Lives as long as its client; equal requests share
 * their kernel. */
typedef struct hone_request hone_request;

/* A kernel as it was when it was found: immutable, and alive as long as the client. */
typedef struct hone_kernel hone_kernel;

/* Does not talk to the daemon. HONE_INVALID_ARGUMENT names a field that is missing or given twice.
 */
HONE_API hone_error* hone_request_create(hone_client* client, const hone_request_options* options,
                                         hone_request** request);
/* The kernel, fetched if there is none yet and loaded into the CUDA context that is current on this
 * thread. `kernel` may be NULL. HONE_UNAVAILABLE when no daemon answers within connect_timeout_ms;
 * the text says what was tried and what to start. HONE_FAILED_PRECONDITION at once for a daemon
 * whose certificate is not to be trusted, and where only one side speaks TLS. With a pack both
 * count as unreachable, and when it has no such kernel either, HONE_NOT_FOUND says what the pack
 * has and why the daemon cannot be reached. */
HONE_API hone_error* hone_prepare(hone_request* request, const hone_kernel** kernel);
/* What launches should use now; NULL before the first hone_prepare. Two atomic loads. */
HONE_API const hone_kernel* hone_find(const hone_request* request);

/* ---- Generations -------------------------------------------------------------------------------
 */

/* The newest generation that is fetched and loaded, but not necessarily in use; 0: none.
 * Generations count changes of the daemon's whole store, so that processes of one host can agree on
 * one. */
HONE_API uint64_t hone_latest_generation(const hone_client* client);
/* Calls `announce` with hone_latest_generation whenever it has grown, or kernels of a pack can be
 * replaced by refreshing to it again, on a thread of the library; it must not call hone_watch or
 * hone_client_close. NULL: no more, and no call is under way any more. */
HONE_API void hone_watch(hone_client* client, void (*announce)(void* context, uint64_t generation),
                         void* context);
/* From now on hone_find answers with the newest kernel up to `generation` (never with an older one
 * than before), so that ranks switch together. `changed` (may be NULL): how many requests did.
 * Kernels found earlier stay valid. Not while this thread captures a stream. */
HONE_API hone_error* hone_refresh(hone_client* client, uint64_t generation, int32_t* changed);

/* ---- Devices -----------------------------------------------------------------------------------
 */

/* Index of the device whose CUDA context is current on this thread; -1: none, or no driver. */
HONE_API int32_t hone_current_device(void);
/* Makes the primary context of a device, which CUDA's runtime and frameworks use, current on this
 * thread. */
HONE_API hone_error* hone_use_device(int32_t device);

/* 1 while `stream`, of the context that is current on this thread, is being captured; 0 too where
 * there is no context. Makes no synchronising call. */
HONE_API int32_t hone_is_capturing(void* stream);

/* ---- What a kernel is --------------------------------------------------------------------------
 */

typedef enum hone_dtype {
  HONE_F16 = 1,
  HONE_BF16 = 2,
  HONE_F32 = 3,
  HONE_F64 = 4,
  HONE_F8E4M3 = 5,
  HONE_F8E5M2 = 6,
  HONE_I8 = 7,
  HONE_U8 = 8,
  HONE_I16 = 9,
  HONE_U16 = 10,
  HONE_I32 = 11,
  HONE_U32 = 12,
  HONE_I64 = 13,
  HONE_U64 = 14,
  HONE_BOOL = 15
} hone_dtype;

/* "F32"; "?" for no type. */
HONE_API const char* hone_dtype_name(hone_dtype dtype);

typedef enum hone_access { HONE_READ = 0, HONE_WRITE = 1, HONE_READ_WRITE = 2 } hone_access;

typedef struct hone_buffer_info {
  const char* name;
  hone_dtype dtype;
  hone_access access;
  int32_t rank;
  int32_t optional; /* 1: the address may be NULL */
} hone_buffer_info;

/* Names in the order of hone_arguments. The lists are the same for all kernels of one request. */
HONE_API int32_t hone_kernel_size_count(const hone_kernel* kernel);
HONE_API const char* hone_kernel_size_name(const hone_kernel* kernel, int32_t index);
HONE_API int32_t hone_kernel_buffer_count(const hone_kernel* kernel);
HONE_API hone_buffer_info hone_kernel_buffer(const hone_kernel* kernel, int32_t index);
HONE_API int32_t hone_kernel_scalar_count(const hone_kernel* kernel);
HONE_API const char* hone_kernel_scalar_name(const hone_kernel* kernel, int32_t index);
HONE_API int32_t hone_kernel_scratch_count(const hone_kernel* kernel);
HONE_API const char* hone_kernel_scratch_name(const hone_kernel* kernel, int32_t index);

/* "TUNED", "BUCKET", "NEAREST", "DEFAULT". */
HONE_API const char* hone_kernel_source(const hone_kernel* kernel);
/* The tuning key in hex; empty for a pack's NEAREST. */
HONE_API const char* hone_kernel_key(const hone_kernel* kernel);
/* Of the first variant: "XBLOCK=256 VEC=4". */
HONE_API const char* hone_kernel_config(const hone_kernel* kernel);
HONE_API const char* hone_kernel_architecture(const hone_kernel* kernel);
/* 0 for what was never tuned, and for a pack's kernels: a generation of the store they come from
 * would mean nothing here, and any of the daemon's is newer. */
HONE_API uint64_t hone_kernel_generation(const hone_kernel* kernel);
/* 1: the measurement or the binary comes from another driver or compiler build. */
HONE_API int32_t hone_kernel_is_stale(const hone_kernel* kernel);
/* 1: a pack answered, because the daemon could not be reached; hone_client_daemon_status says why.
 */
HONE_API int32_t hone_kernel_is_from_pack(const hone_kernel* kernel);

/* ---- Launching ---------------------------------------------------------------------------------
 */

typedef struct hone_buffer {
  void* address;
  /* Extents and, in elements, strides; NULL: trusted to be what the sizes say, densely packed. With
   * `rank` they are checked before the launch. */
  const int64_t* shape;
  const int64_t* strides;
  int32_t rank;
} hone_buffer;

/* Arrays in the order of the kernel's lists; a list that is empty may be NULL. */
typedef struct hone_arguments {
  const int64_t* sizes;
  const hone_buffer* buffers;
  const double* scalars;
  void* const* scratch;
} hone_arguments;

/* Fills those of `sizes` (in the kernel's order) that are an extent of a buffer given with its
 * shape; the others stay as they are. HONE_INVALID_ARGUMENT when two buffers disagree about one. */
HONE_API hone_error* hone_sizes_from_shapes(const hone_kernel* kernel, const hone_buffer* buffers,
                                            int64_t* sizes);

/* Bytes that scratch `index` needs in this launch, for these sizes and buffers. Scratch belongs to
 * the caller: launches that may run at the same time need their own. */
HONE_API hone_error* hone_kernel_scratch_bytes(const hone_kernel* kernel,
                                               const hone_arguments* arguments, int32_t index,
                                               int64_t* bytes);

/* Enqueues the kernel on a stream (a CUstream or cudaStream_t; NULL is the default stream) of the
 * context that is current on this thread. The grid is evaluated for these sizes, and the first
 * variant whose guards hold for these sizes and addresses runs, so that one kernel serves every
 * size that its template declares. Makes no synchronising call: under stream capture a kernel that
 * was not prepared in this context is refused with HONE_FAILED_PRECONDITION and the capture stays
 * valid. */
HONE_API hone_error* hone_launch(const hone_kernel* kernel, const hone_arguments* arguments,
                                 void* stream);
/* Runs the kernel on the CPU reference device and returns when it has ended. */
HONE_API hone_error* hone_launch_on_cpu(const hone_kernel* kernel, const hone_arguments* arguments);

#ifdef __cplusplus
}
#endif

#endif /* HONE_CLIENT_C_HONE_H_ */
