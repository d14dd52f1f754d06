/* Shoal's worker library: all-reduce through reduction servers, for any language that can call C.
 *
 * This is the library's only public header; its symbols are the only ones that libshoal.so exports. The ABI is
 * versioned: shoal_abi_version() must equal SHOAL_ABI_VERSION. Structs start with `struct_size`, set by the caller to
 * sizeof.
 *
 * Threads: every function may be called from any thread, unless it says otherwise. Calls that wait say so and take a
 * timeout. Nothing calls back: completions are fetched (shoal_op_wait, shoal_next_completion). A thread that waits for
 * a small op does part of the worker's work meanwhile. Ownership: strings and arrays passed in are copied. A tensor's
 * memory passed to shoal_all_reduce belongs to the library until its op is complete. Handles are freed by the function
 * named in their comment and must not be used after it. Errors: functions return a shoal_code and, where `error` is not
 * NULL, write a sentence that says what was wrong, where, and what to do. SHOAL_OK is 0. No function aborts the process
 * or throws. fork(): a child must not use handles made before the fork; calls on them return SHOAL_FAILED_PRECONDITION.
 */
#ifndef SHOAL_WORKER_H_
#define SHOAL_WORKER_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHOAL_API __attribute__((visibility("default")))
#else
#define SHOAL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_ABI_VERSION 5

/* The numbers are those of absl::StatusCode. */
typedef enum shoal_code {
  SHOAL_OK = 0,
  SHOAL_CANCELLED = 1, /* the group was aborted or the worker closed */
  SHOAL_UNKNOWN = 2,
  SHOAL_INVALID_ARGUMENT = 3,  /* the call is wrong: mend it */
  SHOAL_DEADLINE_EXCEEDED = 4, /* the message names whom it waited for */
  SHOAL_NOT_FOUND = 5,
  SHOAL_ALREADY_EXISTS = 6, /* for example, another process holds this rank */
  SHOAL_PERMISSION_DENIED = 7,
  SHOAL_RESOURCE_EXHAUSTED = 8,  /* a queue or the servers' slot memory is full */
  SHOAL_FAILED_PRECONDITION = 9, /* wrong state: version skew, closed handle, forked child */
  SHOAL_ABORTED = 10,            /* a rank was lost or the ranks disagree: the group is broken, make a new one */
  SHOAL_OUT_OF_RANGE = 11,
  SHOAL_UNIMPLEMENTED = 12,
  SHOAL_INTERNAL = 13,
  SHOAL_UNAVAILABLE = 14, /* scheduler or server can't be reached */
  SHOAL_DATA_LOSS = 15,
  SHOAL_UNAUTHENTICATED = 16
} shoal_code;

typedef struct shoal_error {
  shoal_code code;
  char message[2044]; /* UTF-8, ends with NUL, cut if longer */
} shoal_error;

typedef enum shoal_dtype {
  SHOAL_FLOAT32 = 1,
  SHOAL_FLOAT64 = 2,
  SHOAL_FLOAT16 = 3,
  SHOAL_BFLOAT16 = 4,
  SHOAL_INT8 = 5,
  SHOAL_INT16 = 6,
  SHOAL_INT32 = 7,
  SHOAL_INT64 = 8,
  SHOAL_UINT8 = 9
} shoal_dtype;

typedef enum shoal_reduce_op {
  SHOAL_SUM = 1,
  SHOAL_AVG = 2,        /* sum divided by the number of ranks */
  SHOAL_PREMUL_SUM = 3, /* sum of factor * input */
  SHOAL_MIN = 4,
  SHOAL_MAX = 5,
  SHOAL_PROD = 6
} shoal_reduce_op;

typedef struct shoal_worker shoal_worker; /* this process's membership in a job; free with shoal_worker_close */
typedef struct shoal_group shoal_group;   /* a set of ranks that reduce together; free with shoal_group_close */
typedef struct shoal_op shoal_op;         /* one all-reduce in flight; free with shoal_op_release */
typedef struct shoal_service
    shoal_service; /* a scheduler or server inside this process; free with shoal_service_stop */

SHOAL_API uint32_t shoal_abi_version(void);
SHOAL_API const char* shoal_version(void);
SHOAL_API const char* shoal_code_name(shoal_code code);

/* ---- joining a job ---- */

/* Whether this process would node a reduction server that serves its own job alone, beside the dedicated ones. The
 * scheduler says who does, at most one process on each node, and gives each server its share of the tensors by the
 * links that it has (docs/adr/0010-hybrid-shards.md). The other ranks must be able to reach this process. */
typedef enum shoal_colocation {
  SHOAL_COLOCATION_OFF = 0,
  SHOAL_COLOCATION_AUTO = 1, /* if the job has more ranks than there are servers, and none runs on this node */
  SHOAL_COLOCATION_ON = 2
} shoal_colocation;

/* What happens when no reduction server is left. Open all-reduces go on in either case, with the same bits, as soon as
 * there is one (docs/adr/0015). */
typedef enum shoal_without_servers {
  SHOAL_WITHOUT_SERVERS_WAIT = 0, /* wait for one, until their deadlines */
  SHOAL_WITHOUT_SERVERS_COLOCATE =
      1 /* this process may be asked to run one for its job, beside one on each other node */
} shoal_without_servers;

typedef struct shoal_worker_options {
  size_t struct_size;
  const char* scheduler;  /* "host:port" */
  const char* job_name;   /* same on all ranks; 1..200 characters */
  uint32_t rank;          /* in the job */
  uint32_t world_size;    /* same on all ranks */
  const char* node_name;  /* names the node in messages and in the placement; NULL: gethostname() */
  uint32_t min_servers;   /* wait until so many servers are there; 0 means 1 */
  uint64_t timeout_ms;    /* for joining; also the default of an op; 0 means 30000 */
  const char* net_device; /* UCX device for the data plane ("eth0", "lo"); NULL: UCX chooses */
  const char* transports; /* UCX transports, comma-separated; NULL: "tcp" */
  uint32_t network_only;  /* not 0: the network to servers of this node too, instead of shared memory */
  shoal_colocation colocation;
  const char* server_address; /* IP at which a colocated server is reached; NULL: that of net_device, or of the way to
                                 the scheduler */
  /* Not 0: results are not kept for other ranks, and a lost server fails the groups that use it. Equal on all ranks. */
  uint32_t fail_on_server_loss;
  /* Not 0: chunks carry a CRC32C, both ways. One that was changed on its way is sent again (with fail_on_server_loss:
   * fails its group) instead of being summed. */
  uint32_t checksums;
  shoal_without_servers without_servers;
  /* Not 0: writes nothing; else a line to standard error when a wait lasts long, naming whom it is for. */
  uint32_t quiet;
} shoal_worker_options;

/* Waits until the scheduler has answered and at least min_servers servers are registered. It does not wait for other
 * ranks. UNAVAILABLE: no scheduler there. ALREADY_EXISTS: the rank is taken (names the holder). INVALID_ARGUMENT: the
 * world size differs from the job's. FAILED_PRECONDITION: version skew. DEADLINE_EXCEEDED: too few servers (names how
 * many). */
SHOAL_API shoal_code shoal_worker_connect(const shoal_worker_options* options, shoal_worker** worker,
                                          shoal_error* error);

/* Leaves the job: open ops end with CANCELLED, groups are closed. A process that runs a colocated server for the job
 * first waits for the other ranks to close the groups that use it, 10 s at most. Safe with NULL. */
SHOAL_API void shoal_worker_close(shoal_worker* worker);

/* ---- groups ---- */

/* How float32 tensors of a group cross the wire, both ways. With 16 bits each contribution is rounded once, the servers
 * sum in float32 and round the result once, to nearest even (docs/numerics.md); every rank gets the same bits, in half
 * the time. Beyond 65504 SHOAL_WIRE_FLOAT16 gives infinity. Tensors of other types cross as they are. */
typedef enum shoal_wire {
  SHOAL_WIRE_NONE = 0, /* as they are */
  SHOAL_WIRE_FLOAT16 = 3,
  SHOAL_WIRE_BFLOAT16 = 4
} shoal_wire;

typedef struct shoal_group_options {
  size_t struct_size;
  const char* name;      /* same on all ranks of the group; unique in the job while the group is open */
  const uint32_t* ranks; /* ranks of the job, in group order, this one among them; NULL: all ranks of the job */
  uint32_t rank_count;
  uint32_t max_chunk_bytes; /* 0: the library's default; must be equal on all ranks */
  uint64_t timeout_ms;      /* 0: the worker's */
  shoal_wire wire;          /* must be equal on all ranks */
} shoal_group_options;

/* Waits until all ranks of the group made the same call and every shard has opened the group.
 * DEADLINE_EXCEEDED names the ranks that did not come. INVALID_ARGUMENT: the ranks gave different lists, chunk sizes or
 * wires. RESOURCE_EXHAUSTED: a server has no memory for the group's slots (names the server). */
SHOAL_API shoal_code shoal_group_create(shoal_worker* worker, const shoal_group_options* options, shoal_group** group,
                                        shoal_error* error);

SHOAL_API uint32_t shoal_group_rank(const shoal_group* group); /* of this process in the group */
SHOAL_API uint32_t shoal_group_size(const shoal_group* group);

typedef struct shoal_plan {
  size_t struct_size;
  uint32_t chunk_count;
  uint32_t chunk_bytes;       /* of every chunk but the last, on the wire */
  uint32_t shards_used;       /* I/O threads of servers that get a chunk */
  uint32_t window_chunks;     /* under way at a time to one of them */
  uint32_t look_ahead_chunks; /* under way at a time in all; 0: as the windows allow */
  uint64_t link_bytes_per_s;  /* as measured when the group was made; 0: not measured */
  uint64_t round_trip_ns;
  uint64_t message_ns;   /* what a message costs beyond its bytes */
  uint64_t predicted_ns; /* by the model that chunks and window come from (core/time_model.h); 0: nothing measured */
} shoal_plan;

/* How an all-reduce of `count` elements would be done; nothing is sent. INVALID_ARGUMENT: as for shoal_all_reduce. */
SHOAL_API shoal_code shoal_group_plan(const shoal_group* group, uint64_t count, shoal_dtype dtype, shoal_plan* plan,
                                      shoal_error* error);

/* Ends all open ops of the group with CANCELLED and `reason`, and every later submit at once. The other ranks' open ops
 * fail with ABORTED. */
SHOAL_API void shoal_group_abort(shoal_group* group, const char* reason);

/* Waits for the group's open ops to end (abort it first to end them early), and until every rank has its results of
 * them (half a minute at most), then frees it. Safe with NULL. */
SHOAL_API void shoal_group_close(shoal_group* group);

/* ---- all-reduce ---- */

typedef struct shoal_all_reduce_options {
  size_t struct_size;
  shoal_dtype dtype;
  shoal_reduce_op op;
  double premul_factor; /* SHOAL_PREMUL_SUM only; equal on all ranks */
  uint64_t timeout_ms;  /* from now until the op must be complete; 0: the worker's */
  int notify;           /* not 0: its completion is fetched by shoal_next_completion */
  uint64_t user_data;   /* given back by shoal_next_completion */
} shoal_all_reduce_options;

/* Starts an all-reduce in place of `count` elements at `data` (contiguous, host memory, aligned for the dtype). Ranks
 * must make the same calls in the same order. Returns at once; many ops may be in flight. count 0 completes at once.
 * RESOURCE_EXHAUSTED: too many ops in flight (wait for one). ABORTED / CANCELLED: the group is broken or closed.
 * How the op ends: OK, also when servers are lost on the way; ABORTED (a rank was lost; sizes, dtypes or ops differ
 * between ranks: names them); DEADLINE_EXCEEDED (names the ranks or servers that are missing); UNAVAILABLE (with
 * fail_on_server_loss: a server was lost). On an error the content of `data` is undefined. */
SHOAL_API shoal_code shoal_all_reduce(shoal_group* group, void* data, uint64_t count,
                                      const shoal_all_reduce_options* options, shoal_op** op, shoal_error* error);

/* Waits until the op is complete or timeout_ms passed (0: only looks; UINT64_MAX: until the op's own deadline).
 * DEADLINE_EXCEEDED with the op still open: see shoal_op_done. */
SHOAL_API shoal_code shoal_op_wait(shoal_op* op, uint64_t timeout_ms, shoal_error* error);
SHOAL_API int shoal_op_done(const shoal_op* op);
/* Time from submit to completion; 0 while open. */
SHOAL_API uint64_t shoal_op_duration_ns(const shoal_op* op);
/* May be called before completion; the tensor's memory must still stay until the op is complete. Safe with NULL. */
SHOAL_API void shoal_op_release(shoal_op* op);

typedef struct shoal_completion {
  uint64_t user_data;
  uint64_t duration_ns;
  shoal_error result;
} shoal_completion;

/* Fetches the next completion of an op submitted with `notify`, of any group of the worker, in the order of completion.
 * DEADLINE_EXCEEDED: none within timeout_ms. CANCELLED: the worker is closing and no more will come. One thread at a
 * time. */
SHOAL_API shoal_code shoal_next_completion(shoal_worker* worker, uint64_t timeout_ms, shoal_completion* completion);

/* ---- what happened so far ---- */

typedef struct shoal_statistics {
  size_t struct_size;
  uint64_t ops_completed;
  uint64_t ops_failed;
  uint64_t bytes_pushed; /* payload, without headers */
  uint64_t bytes_pulled;
  uint64_t chunks_pushed;
  uint64_t refusals;         /* messages that a server refused */
  uint64_t op_time_ns_total; /* sum over completed ops */
  uint64_t map_epoch;
  uint32_t shard_count; /* I/O threads of servers in the map */
  uint32_t server_count;
  uint64_t waits_reported; /* lines about all-reduces and groups that waited long; see quiet */
} shoal_statistics;

SHOAL_API shoal_code shoal_worker_statistics(shoal_worker* worker, shoal_statistics* statistics);

typedef struct shoal_server_statistics {
  char name[128];
  char address[64];      /* of the shard's I/O thread */
  uint64_t bytes_pushed; /* by this worker to this shard */
  uint64_t bytes_pulled;
  char transport[128]; /* what moves the bytes: "rc_verbs/mlx5_0:1", "tcp/eth0", "shared memory"; "" while it is down */
} shoal_server_statistics;

/* Fills at most `capacity` entries (one per shard) and returns how many shards there are. */
SHOAL_API uint32_t shoal_worker_server_statistics(shoal_worker* worker, shoal_server_statistics* entries,
                                                  uint32_t capacity);

/* ---- a scheduler or a server inside this process (the set-up with nothing else running) ---- */

/* Starts a scheduler that keeps its state in memory. `listen` is "ip:port"; port 0 picks a free one. */
SHOAL_API shoal_code shoal_start_scheduler(const char* listen, shoal_service** node, shoal_error* error);

typedef struct shoal_server_options {
  size_t struct_size;
  const char* scheduler;      /* "host:port" */
  const char* advertise;      /* IP that workers reach this server at */
  const char* name;           /* unique in the cluster; NULL: made from node name and process id */
  uint32_t io_threads;        /* 0 means 1 */
  uint64_t slot_memory_bytes; /* 0 means the server's default */
  const char* net_device;     /* as in shoal_worker_options */
  const char* transports;
  uint64_t timeout_ms;   /* for registering; 0 means 30000 */
  uint32_t network_only; /* not 0: no shared memory with workers of this node */
} shoal_server_options;

SHOAL_API shoal_code shoal_start_server(const shoal_server_options* options, shoal_service** node, shoal_error* error);

/* "ip:port" of a scheduler, "ip:port,ip:port" of a server's I/O threads. Valid until shoal_service_stop. */
SHOAL_API const char* shoal_service_address(const shoal_service* node);
SHOAL_API void shoal_service_stop(shoal_service* node);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SHOAL_WORKER_H_ */
