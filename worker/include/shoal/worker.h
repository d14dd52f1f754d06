/* Shoal's worker library: all-reduce through reduction servers, for any language that can call C.
 *
 * This is the library's only public header; its symbols are the only ones that libshoal.so exports. Another version of
 * the header has other structs. The loader refuses a program that was linked with another version; one that calls
 * dlopen checks that shoal_abi_version() equals SHOAL_ABI_VERSION. Structs are set to zero before their fields are
 * filled in. docs/embedding.md explains the order of calls and names an example.
 *
 * Threads: every function may be called from any thread, unless its comment says otherwise. Functions that wait say so
 * and take a timeout. The library never calls back into the program: completions are fetched (shoal_op_wait,
 * shoal_next_completion). A thread that waits for a small op does some of the worker's work while it waits.
 *
 * Ownership: strings and arrays that are passed in are copied. A tensor's memory that is passed to shoal_all_reduce
 * belongs to the library until its op is complete. Handles are freed by the function named in their comment and must
 * not be used after that.
 *
 * Errors: functions return a shoal_code and, where `error` is not NULL, write a sentence that says what happened,
 * where, and what to do. SHOAL_OK is 0. No function aborts the process or throws.
 *
 * fork(): a child of a process that uses the library must not use it. Calls there return SHOAL_FAILED_PRECONDITION.
 */
#ifndef SHOAL_WORKER_H_
#define SHOAL_WORKER_H_

#include <stdint.h>

#if defined(__GNUC__)
#define SHOAL_API __attribute__((visibility("default")))
#else
#define SHOAL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_ABI_VERSION 22

/* The numbers are those of absl::StatusCode. */
typedef enum shoal_code {
  SHOAL_OK = 0,        /* the call has done what it was asked to do */
  SHOAL_CANCELLED = 1, /* the group was aborted or the worker closed */
  SHOAL_UNKNOWN = 2,   /* something else than a scheduler answers at its address: check the address, and proxies */
  SHOAL_INVALID_ARGUMENT = 3,    /* the call is wrong: fix the argument that the message names */
  SHOAL_DEADLINE_EXCEEDED = 4,   /* the message names the ranks or servers that are missing */
  SHOAL_NOT_FOUND = 5,           /* there is no driver for the devices, or nothing kept for such a tensor */
  SHOAL_ALREADY_EXISTS = 6,      /* for example, another process holds this rank */
  SHOAL_PERMISSION_DENIED = 7,   /* the process's certificate gives it no right to this job, or none at all */
  SHOAL_RESOURCE_EXHAUSTED = 8,  /* memory, threads or descriptors are used up; the message says where */
  SHOAL_FAILED_PRECONDITION = 9, /* wrong state: versions, closed handle, forked child, membership ended, certificate */
  SHOAL_ABORTED = 10,            /* a rank was lost, left or gave up, or the ranks disagree: make a new group */
  SHOAL_OUT_OF_RANGE = 11,       /* never returned */
  SHOAL_UNIMPLEMENTED = 12,      /* the group can't reduce tensors on devices */
  SHOAL_INTERNAL = 13,           /* a device has failed; or a bug, which the message asks you to report */
  SHOAL_UNAVAILABLE = 14,        /* the scheduler or a server can't be reached */
  SHOAL_DATA_LOSS = 15,          /* never returned: a payload that was changed on its way comes again */
  SHOAL_UNAUTHENTICATED = 16     /* a server does not accept the group's token */
} shoal_code;

typedef struct shoal_error {
  shoal_code code;
  char message[2044]; /* UTF-8, ends with NUL, truncated if longer */
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
  SHOAL_PREMUL_SUM = 3, /* sum of factor * input, of floating types */
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

/* Whether this process is willing to run a colocated server: a reduction server that serves its own job alone, beside
 * the dedicated ones. The scheduler chooses which processes do, at most one on each node, and gives each server a share
 * of the tensors that fits its links (docs/adr/0010-hybrid-shards.md). The other ranks must be able to reach this
 * process. */
typedef enum shoal_colocation {
  SHOAL_COLOCATION_OFF = 0,
  /* If there are fewer servers than the job has ranks, and none on this node. Where the ranks of a node reduce among
   * themselves first, the job's nodes are counted instead, if local_world_size tells their number. */
  SHOAL_COLOCATION_AUTO = 1,
  SHOAL_COLOCATION_ON = 2
} shoal_colocation;

/* What open all-reduces do when no reduction server is left. In both cases they continue, with the same bits, as soon
 * as there is a server again (docs/adr/0015). */
typedef enum shoal_without_servers {
  SHOAL_WITHOUT_SERVERS_WAIT = 0, /* they wait for one, until their deadlines */
  SHOAL_WITHOUT_SERVERS_COLOCATE =
      1 /* this process may be asked to run a colocated server; one process on each node is asked */
} shoal_without_servers;

/* Whether the ranks of a node reduce among themselves. The scheduler decides that for each group, because it sees where
 * the ranks are. A group on one node then uses no reduction servers, and its sums of tensors in host memory have the
 * same bits either way. If every node has the same number of ranks, two or more, each node sums first and every rank
 * pushes its own part: the last bits of sums of floats then depend on which ranks share a node
 * (docs/numerics.md). Must be equal on all ranks of a group: otherwise the group is not made, and the message names two
 * ranks and what each has. */
typedef enum shoal_node_reduce {
  SHOAL_NODE_REDUCE_AUTO = 0, /* of a group: the worker's setting; of a worker: the scheduler decides */
  SHOAL_NODE_REDUCE_OFF = 1,  /* never: every rank uses the servers */
  SHOAL_NODE_REDUCE_HOST = 2, /* wherever it is possible, through the memory of the node */
  /* Likewise, and tensors on devices through NCCL. A group that is reduced within nodes can't be made where a rank of
   * the node has no NCCL or no devices. AUTO takes NCCL where all ranks of a node have it, and HOST does not. */
  SHOAL_NODE_REDUCE_NCCL = 3,
  SHOAL_NODE_REDUCE_BEST = 4 /* the scheduler decides, whatever a group's worker says */
} shoal_node_reduce;

/* Where tensors may be, apart from host memory. */
typedef enum shoal_devices {
  SHOAL_DEVICES_NONE = 0,
  /* On CUDA devices. The worker then loads the driver's library (libcuda.so.1, or the one that SHOAL_CUDA_LIBRARY
   * names), and first uses a device when a tensor on it comes or shoal_worker_open_device names it. */
  SHOAL_DEVICES_CUDA = 1
} shoal_devices;

typedef struct shoal_worker_options {
  const char* scheduler; /* "host:port", or several of them separated by commas */
  const char* job_name;  /* the same on all ranks; 1..200 ASCII letters, digits and characters . _ - : / */
  uint32_t rank;         /* in the job */
  uint32_t world_size;   /* the same on all ranks */
  const char* node_name; /* the node's name in messages and for the placement; NULL: gethostname() in messages, and for
                            the placement the kernel's boot id, which tells nodes of one name apart */
  uint32_t min_servers;  /* how many servers to wait for; 0 means 1 */
  uint64_t timeout_ms;   /* for joining, and the default for an op; 0 means 30000 */
  /* Network device of the data plane ("eth0", "lo"); NULL: that of each route. Where a node has several network cards,
   * the same list on all its ranks: separated by commas ("eth0,eth1") each rank may use all; separated by slashes
   * ("mlx5_0:1/mlx5_1:1", not over TCP) the ranks are dealt over them in blocks: with 8 ranks and two cards the first
   * four use the first one. */
  const char* net_device;
  const char* transports; /* as the servers have it: "tcp", or RDMA transports of UCX such as "rc"; NULL: "tcp" */
  uint32_t network_only;  /* not 0: use the network also to servers of this node, instead of shared memory */
  shoal_colocation colocation;
  const char* server_address; /* IP at which a colocated server is reached; NULL: that of net_device, or the one from
                                 which the scheduler is reached */
  /* Not 0: chunks carry a CRC32C in both directions. A chunk that was changed on its way is sent again instead of being
   * summed. Must be equal on all ranks: otherwise no group is made, and the message names two ranks and what each
   * has. */
  uint32_t checksums;
  shoal_without_servers without_servers;
  /* 0: when a wait lasts long, a line on standard error names what is missing. Not 0: nothing is written. */
  uint32_t quiet;
  shoal_node_reduce node_reduce; /* of groups whose own options say AUTO */
  shoal_devices devices;
  /* Host memory for chunks of device tensors in transit, shared by all groups; allocated, pinned and registered once.
   * 0: 256 MiB. */
  uint64_t device_memory_bytes;
  /* Of the ranks of this node, as their launcher numbers them (torchrun's LOCAL_RANK and LOCAL_WORLD_SIZE); needed
   * where ranks are dealt over devices. SHOAL_COLOCATION_AUTO counts nodes by local_world_size. 0: not known. */
  uint32_t local_rank;
  uint32_t local_world_size;
  /* Not 0: contributions are looked at before anything is sent. One that has NaN or infinity fails its
   * shoal_all_reduce with INVALID_ARGUMENT and aborts the group, so that no rank goes on with such a sum: the other
   * ranks' ops end with ABORTED, and their messages name the rank and the element. Costs a pass over the tensor before
   * an op, and one after it for result_square_sum of the statistics: the tensor's memory must stay valid and unchanged
   * until shoal_op_wait or shoal_next_completion has returned. Tensors on devices are not looked at. Ranks may
   * differ. */
  uint32_t check_finite;
  /* When an op fails its group (unless with CANCELLED), the last 1024 events of this process's connections, and
   * ops within its node, are written to a file, at most 16 an hour, and sent to the scheduler, which has them for
   * `shoalctl timeline`; a line on standard error names the group, the reason and the file. A colocated server does
   * likewise for the groups that fail on it. NULL, "" or "auto": in the folder shoal-flights-UID of the temporary
   * directory (TMPDIR, otherwise /tmp), which is made then, for this user alone, and holds the user's newest 256 files;
   * where that can't be, nothing fails, and the line says so. "off": neither written nor sent. Otherwise a folder that
   * is there. */
  const char* flight_recorder;
  /* 0: a job of fixed size. Else the process joins an open job: its ranks come and go. Rank and world size are 0, each
   * process gets a rank that nobody has had before (shoal_worker_rank), every group lists its ranks, and a rank that is
   * lost ends its groups with ABORTED and not the job, as long as so many ranks are left. The same on all ranks. Such a
   * job needs a scheduler that outlives its ranks, and its ranks run no colocated servers. */
  uint32_t min_ranks;
  const char* identity; /* in an open job: who this is, whichever process it is now; shown to people; NULL: nobody */
  /* PEM files with which this process shows the scheduler who it is, and by which it knows the scheduler: its
   * certificate, the key of that, and those who may sign. All three or none; NULL or "": none, in plain text
   * (docs/security.md). Changed files are read again. If tls_ca begins with "-----BEGIN ", all three are what such
   * files hold instead, as shoal_draw_keys makes it. */
  const char* tls_cert;
  const char* tls_key;
  const char* tls_ca;
} shoal_worker_options;

/* Waits until the scheduler has answered and at least min_servers servers are registered, or all ranks of the job have
 * joined and can reduce among themselves on one node. Otherwise it does not wait for other ranks. UNAVAILABLE: no
 * scheduler answers. ALREADY_EXISTS: the rank is taken (the message names the holder). INVALID_ARGUMENT: the world size
 * differs from the job's. FAILED_PRECONDITION: versions differ. DEADLINE_EXCEEDED: there are too few servers (the
 * message says how many). NOT_FOUND: there is no driver for the devices. */
SHOAL_API shoal_code shoal_worker_connect(const shoal_worker_options* options, shoal_worker** worker,
                                          shoal_error* error);

/* Of this process in the job. */
SHOAL_API uint32_t shoal_worker_rank(shoal_worker* worker);

/* Leaves the job as a rank that is lost: groups with `min_ranks` go on without it, and others fail on their ranks. Its
 * own open ops end with CANCELLED. For a process that ends by an error of its own: after shoal_worker_close alone it
 * has left in good order, and the others' next all-reduce says so instead of the reason. shoal_worker_close is still to
 * follow. NULL is allowed; `reason` NULL: none is given. */
SHOAL_API void shoal_worker_give_up(shoal_worker* worker, const char* reason);

/* Leaves the job: open ops end with CANCELLED, and groups are closed. A process that runs a colocated server for the
 * job first waits for the other ranks to close the groups that use it, 10 s at most. NULL is allowed. */
SHOAL_API void shoal_worker_close(shoal_worker* worker);

/* Loads onto the device what all-reduces of tensors there need, which otherwise the first of them does. The driver lets
 * that wait for all that runs on the device, other threads' work too. From then on no all-reduce waits for what runs
 * there; in groups that reduce within nodes NCCL lets the first ones of a kind wait for the node's other ranks. To be
 * called before there is such work, once for each device. INVALID_ARGUMENT: there is no such device, or `worker` is
 * NULL. CANCELLED: the worker is closed. FAILED_PRECONDITION: it was connected without devices. RESOURCE_EXHAUSTED:
 * device_memory_bytes of host memory can't be locked. INTERNAL: what the driver said. */
SHOAL_API shoal_code shoal_worker_open_device(shoal_worker* worker, uint32_t device, shoal_error* error);

/* ---- groups ---- */

/* How float32 tensors of a group are sent, in both directions. Unless it is SHOAL_WIRE_NONE each contribution is
 * rounded once, and the servers sum in float32 and round the result once, to nearest even (docs/numerics.md). Every
 * rank gets the same bits. With 16 bits half as many bytes are sent; SHOAL_WIRE_FLOAT16 turns values beyond 65504 into
 * infinity. With 8 bits about a quarter is sent: 32 elements share a scale, and finite ones beside an infinity or a NaN
 * are lost; such a group takes no tensors on devices. Of SHOAL_WIRE_INT8 small numbers beside a large one are lost as
 * well; SHOAL_WIRE_FLOAT8 keeps four binary digits of each. Tensors of other types are sent unchanged. */
typedef enum shoal_wire {
  SHOAL_WIRE_NONE = 0, /* unchanged */
  SHOAL_WIRE_FLOAT16 = 3,
  SHOAL_WIRE_BFLOAT16 = 4,
  SHOAL_WIRE_INT8 = 5,
  SHOAL_WIRE_FLOAT8 = 10 /* E4M3 */
} shoal_wire;

typedef struct shoal_group_options {
  const char* name;      /* as job_name; the same on all its ranks; unique in the job while the group is open */
  const uint32_t* ranks; /* ranks of the job, in group order, including this one; NULL: all ranks of the job */
  uint32_t rank_count;
  uint32_t max_chunk_bytes; /* 0: the library's default; must be equal on all ranks */
  uint64_t timeout_ms;      /* 0: the worker's */
  shoal_wire wire;          /* must be equal on all ranks */
  shoal_node_reduce node_reduce;
  /* Of a group in an open job, equal on all ranks. 0: the loss of a rank ends the group. Else the group goes on without
   * lost ranks, 64 at most, as long as so many are left: chunks of open ops that some rank has the result of are handed
   * to all, and the others are reduced without the contributions of those that are lost (an average over those that
   * are left). Where ranks reduce within their nodes, a lost rank takes its node out of the group: ops of the node's
   * other ranks end with ABORTED. On one node alone, and with devices (unless node_reduce is HOST), they do not. */
  uint32_t min_ranks;
  /* With min_ranks, equal on all ranks. Not 0: SHOAL_SUM of floating types, where it is without the contributions of
   * some, is scaled by the number of all ranks to that of contributions, each contribution before it is added. */
  uint32_t scale_sums;
  /* With min_ranks, equal on all ranks. Not 0: an all-reduce while which a rank is lost is repeated if some of its
   * chunks have that rank's contribution and others not, so that all of a result has the same contributors. Takes a
   * copy of each tensor, and the group's all-reduces no longer overlap. Not for tensors on devices. */
  uint32_t whole_op;
  /* Not 0, with a wire that rounds: what rounding takes from a SHOAL_SUM's or SHOAL_AVG's float32 contribution is added
   * to the next one at the same place (address and number of elements), as that of a gradient at each step. Takes a
   * float32 number for each element of each place, of 1024 places at most; the group's ranks do not reduce within their
   * nodes. For this rank alone. Not for tensors on devices. */
  uint32_t error_feedback;
} shoal_group_options;

/* Waits until all ranks of the group have made the same call and every shard has opened the group. DEADLINE_EXCEEDED:
 * the message names the ranks that did not call. INVALID_ARGUMENT: the ranks gave different lists, chunk sizes or
 * wires, or differ in an option that must be equal on all. RESOURCE_EXHAUSTED: a server has no memory for the group's
 * slots (the message names the server). ABORTED: a rank was lost, or gave the group up before it was open.
 * FAILED_PRECONDITION: the scheduler has declared this rank lost, or no longer knows its job; the message says why:
 * make a new worker. */
SHOAL_API shoal_code shoal_group_create(shoal_worker* worker, const shoal_group_options* options, shoal_group** group,
                                        shoal_error* error);

SHOAL_API uint32_t shoal_group_rank(const shoal_group* group); /* of this process in the group */
SHOAL_API uint32_t shoal_group_size(const shoal_group* group);
/* 0: the group reduces no tensors on devices, as one with a wire of 8 bits, whole_op or error_feedback. 1: it does. 2:
 * it does, as one that is reduced within nodes, where all ranks of this one's node have devices and NCCL (libnccl.so.2,
 * or the library that SHOAL_NCCL_LIBRARY names): then it has one device for each rank, and takes what NCCL takes. */
SHOAL_API int shoal_group_takes_devices(const shoal_group* group);

typedef struct shoal_plan {
  uint32_t chunk_count;       /* 0: nothing to reduce, or it is reduced within the node, without servers */
  uint32_t chunk_bytes;       /* of every chunk but the last, on the wire */
  uint32_t shards_used;       /* I/O threads of servers that get a chunk */
  uint32_t window_chunks;     /* in flight at a time to one of them */
  uint32_t look_ahead_chunks; /* in flight at a time to all of them; 0: limited by the windows alone */
  uint64_t link_bytes_per_s;  /* as measured when the group was made; 0: not measured */
  uint64_t round_trip_ns;
  uint64_t message_ns;   /* what a message costs beyond its bytes */
  uint64_t predicted_ns; /* by the model that determines chunks and window (core/time_model.h); 0: not measured */
  /* 1: none. Above 1: the ranks of a node reduce among themselves first, and so many share its link. Each of them
   * pushes one part; chunks and servers are those of the largest part, the prediction is for the whole
   * tensor. */
  uint32_t rails;
} shoal_plan;

/* Says how an all-reduce of `count` elements would be done; nothing is sent. INVALID_ARGUMENT: as for
 * shoal_all_reduce. */
SHOAL_API shoal_code shoal_group_plan(const shoal_group* group, uint64_t count, shoal_dtype dtype, shoal_plan* plan,
                                      shoal_error* error);

/* Ends all open ops of the group with CANCELLED and `reason`, and makes every later all-reduce fail at once. The open
 * ops of the other ranks fail with ABORTED. */
SHOAL_API void shoal_group_abort(shoal_group* group, const char* reason);

/* OK: nothing is wrong with the group. Else its first failure, as an all-reduce would return it: of an op, of an abort,
 * or of a lost rank while no op was open. An op on a device that fails does so before its stream goes on. Never waits.
 */
SHOAL_API shoal_code shoal_group_failure(const shoal_group* group, shoal_error* error);

/* What error_feedback has kept for a tensor, to be saved with the weights. `index` 0, 1, ... is in the order in which
 * the tensors were reduced first. `values` NULL: tells their number in `count` alone; else `count` is the room at
 * first. While no op is open. NOT_FOUND: there are no more. INVALID_ARGUMENT: there is not enough room.
 * FAILED_PRECONDITION: the group has no error_feedback. */
SHOAL_API shoal_code shoal_group_read_feedback(const shoal_group* group, uint32_t index, float* values, uint64_t* count,
                                               shoal_error* error);
/* Gives such values back, in their order, before the first op. Each is for the first tensor with as many elements.
 * RESOURCE_EXHAUSTED: there are too many. FAILED_PRECONDITION: as above. */
SHOAL_API shoal_code shoal_group_add_feedback(shoal_group* group, const float* values, uint64_t count,
                                              shoal_error* error);

/* Waits until the group's open ops have ended (abort the group first to end them early) and every rank has its results
 * of them (30 s at most), then frees the group. NULL is allowed. */
SHOAL_API void shoal_group_close(shoal_group* group);

/* ---- all-reduce ---- */

typedef struct shoal_all_reduce_options {
  shoal_dtype dtype;
  shoal_reduce_op op;
  double premul_factor; /* for SHOAL_PREMUL_SUM only; must be equal on all ranks */
  uint64_t timeout_ms;  /* from now until the op must be complete; 0: the worker's */
  /* Not 0: `data` is an address on the device with the ordinal `device`, and holds the contribution once the work that
   * is enqueued on `stream` now is done (a cudaStream_t of that device; NULL: its default stream). The host does not
   * wait for that. shoal_op_wait_on_stream makes a stream wait for the result. */
  int on_device;
  uint32_t device;
  void* stream;
} shoal_all_reduce_options;

/* Starts an all-reduce, in place, of `count` elements at `data` (contiguous, in host memory or, with `on_device`, on a
 * device, aligned for the dtype). All ranks must make the same calls in the same order. It returns at once, and any
 * number of ops may be in flight. An op of 0 elements completes at once.
 *
 * Errors of the call: ABORTED, CANCELLED: the group is broken or closed. INVALID_ARGUMENT: with check_finite, the
 * contribution has NaN or infinity.
 *
 * The op ends with OK, also when servers are lost on the way; with ABORTED if a rank was lost, gave the group up or
 * left it without this op, or if sizes, dtypes or ops differ between ranks (the message names them); with
 * DEADLINE_EXCEEDED (the message names the ranks or servers that are missing); with RESOURCE_EXHAUSTED if no server
 * that is left has the memory for the group; or with FAILED_PRECONDITION if the scheduler does not know this rank or
 * its group any more. After an error the content of `data` is undefined; on a device all of its bits are ones, which
 * are NaN as floating-point numbers, unless the device has failed.
 *
 * On a device the call has these errors as well. UNIMPLEMENTED: the group has a wire of 8 bits, or is reduced within
 * nodes, and its ranks on this node can't reduce among their devices, or NCCL can't reduce the type (int16).
 * FAILED_PRECONDITION: the worker was connected without devices, the stream is being captured into a graph, or the
 * group's tensors were on another device. RESOURCE_EXHAUSTED: the host memory that ops go through can't be locked;
 * INTERNAL: the device has failed; with both the group has failed on all ranks. In a group that is reduced within nodes
 * a rank has one device, and its first call waits for the first calls of the node's other ranks. With 1024 ops on
 * devices in flight a call waits for one of them to leave its device; RESOURCE_EXHAUSTED: they have ended, and a second
 * later their devices had not given back what they use. DEADLINE_EXCEEDED: none had ended by this op's deadline. The op
 * ends with INTERNAL if the device fails before the contribution is ready. If it fails later, it reports nothing more,
 * and the op ends with DEADLINE_EXCEEDED; the message says that it is the device.
 *
 * A call that is refused on one rank alone, and is not made again, leaves that rank one op behind the others: abort the
 * group.
 */
SHOAL_API shoal_code shoal_all_reduce(shoal_group* group, void* data, uint64_t count,
                                      const shoal_all_reduce_options* options, shoal_op** op, shoal_error* error);

/* Waits until the op is complete or timeout_ms have passed (0: does not wait; UINT64_MAX: until the op's own deadline).
 * DEADLINE_EXCEEDED may mean that the op is still open: shoal_op_done says whether it is complete. */
SHOAL_API shoal_code shoal_op_wait(shoal_op* op, uint64_t timeout_ms, shoal_error* error);
SHOAL_API int shoal_op_done(const shoal_op* op);
/* Work enqueued on `stream` after this call (a cudaStream_t of the tensor's device; NULL: its default stream) sees the
 * result; the host does not wait. Call it before anything touches the tensor on its device again, a stream-ordered free
 * of its memory included, unless shoal_op_wait has returned OK: a failed op may still be about to fill its tensor with
 * ones. INVALID_ARGUMENT: the tensor is not on a device. FAILED_PRECONDITION: the stream is being captured into a
 * graph. INTERNAL: the driver failed, and the message has its error; nothing was enqueued. */
SHOAL_API shoal_code shoal_op_wait_on_stream(shoal_op* op, void* stream, shoal_error* error);
/* The op's completion is fetched by shoal_next_completion, with `user_data`, also if the op is complete already. For a
 * caller that does not wait for the op itself. FAILED_PRECONDITION: this was asked for before. */
SHOAL_API shoal_code shoal_op_notify(shoal_op* op, uint64_t user_data, shoal_error* error);
/* Time from submit to completion; 0 while open. */
SHOAL_API uint64_t shoal_op_duration_ns(const shoal_op* op);
/* Of a complete op of a group: how many ranks' contributions its elements have, at least and at most. They differ where
 * ranks were lost while it was open. 0: not known, because it has failed, or no servers reduced it. */
SHOAL_API void shoal_op_contributors(const shoal_op* op, uint32_t* least, uint32_t* most);
/* May be called before completion. The tensor's memory must nevertheless stay valid until the op is complete, and on a
 * device until a stream has waited for the op (shoal_op_wait_on_stream). NULL is allowed. */
SHOAL_API void shoal_op_release(shoal_op* op);

typedef struct shoal_completion {
  uint64_t user_data;
  uint64_t duration_ns;
  shoal_error result;
} shoal_completion;

/* Fetches the next completion that shoal_op_notify asked for, of any group of the worker, in the order of completion.
 * Call it from one thread at a time. DEADLINE_EXCEEDED: none within timeout_ms. CANCELLED: the worker is closing and no
 * more completions will come. */
SHOAL_API shoal_code shoal_next_completion(shoal_worker* worker, uint64_t timeout_ms, shoal_completion* completion);

/* ---- statistics ---- */

#define SHOAL_OP_TIME_BUCKETS 21

typedef struct shoal_statistics {
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
  uint64_t waits_reported; /* lines about all-reduces and groups that waited long (option quiet) */
  uint64_t bytes_on_node;  /* of tensors that were reduced within the node, wholly or before the servers */
  /* With check_finite: the sum of the squares of all results of floating-point tensors so far, of ops that were waited
   * for or whose completion was fetched. A result whose sum is not finite is left out. Where nothing but gradients is
   * reduced in a training step, its growth in the step is the square of the gradient's norm. */
  double result_square_sum;
  /* How long completed ops took: op_time_counts[i] of them at most op_time_bounds_ns[i], and longer than the bound
   * before. The bounds are the same in every process; the last one is UINT64_MAX. */
  uint64_t op_time_bounds_ns[SHOAL_OP_TIME_BUCKETS];
  uint64_t op_time_counts[SHOAL_OP_TIME_BUCKETS];
} shoal_statistics;

SHOAL_API shoal_code shoal_worker_statistics(shoal_worker* worker, shoal_statistics* statistics);

typedef struct shoal_server_statistics {
  char name[128];
  char address[64];      /* of the shard's I/O thread */
  uint64_t bytes_pushed; /* by this worker to this shard */
  uint64_t bytes_pulled;
  char transport[128]; /* how it is reached: "rc_verbs/mlx5_0:1", "tcp/eth0", "shared memory"; "" while it is not */
} shoal_server_statistics;

/* Fills at most `capacity` entries (one per shard) and returns how many shards there are. */
SHOAL_API uint32_t shoal_worker_server_statistics(shoal_worker* worker, shoal_server_statistics* entries,
                                                  uint32_t capacity);

/* ---- what a way carries (for people who look for the cause of a slow job) ---- */

typedef struct shoal_way_options {
  const char* addresses;  /* "ip:port,ip:port": one server's I/O threads, all of which are sent to at once */
  const char* scheduler;  /* "host:port": the one that the server is registered with */
  const char* net_device; /* one, as in shoal_worker_options */
  const char* transports;
  uint64_t connect_timeout_ms; /* 0 means 5000 */
  uint64_t duration_ms;        /* 0 means 500 */
  const char* tls_cert;        /* this and the next two: as in shoal_worker_options */
  const char* tls_key;
  const char* tls_ca;
} shoal_way_options;

typedef struct shoal_way {
  uint64_t round_trip_ns; /* of the shortest of a few empty messages */
  uint64_t bytes_per_s;   /* from here to the server, in the second half of the time */
  double processor_share; /* of one core that this thread used then; near 1 it may be what limits bytes_per_s */
  char transports[192];   /* that carried them: "tcp/eth0" */
} shoal_way;

/* Measures the way from this node to one server: sends what the server drops, over connections of its own, as fast as
 * it goes. Other traffic on the way has less of it meanwhile. Waits: both times, and up to five seconds more where
 * little comes through. INVALID_ARGUMENT: an option is wrong. UNAVAILABLE: a connection was refused or broke.
 * DEADLINE_EXCEEDED: it was not made in time. FAILED_PRECONDITION: the process there is no Shoal server, or is of
 * another version or configured otherwise; in a forked child. */
SHOAL_API shoal_code shoal_measure_way(const shoal_way_options* options, shoal_way* way, shoal_error* error);

/* ---- where this process is ---- */

typedef struct shoal_node {
  /* Processes that have the same text reach each other at 127.0.0.1, and nobody else reaches them there. Empty: it is
   * not known. */
  char identity[200];
  char address[64]; /* the IP at which others reach this process; a loopback address: no other node does */
} shoal_node;

/* Says where this process is. `net_device`: as in shoal_worker_options, or NULL. `peer`: "host:port" of a process that
 * all others reach, or NULL. The address is that of the device, else the one from which this node talks to the peer,
 * else to the rest of the world. UNAVAILABLE: the peer's name can't be resolved, there is no route to it, or nothing
 * says which of this node's addresses it is; the message says what to do, and the identity is there nevertheless. */
SHOAL_API shoal_code shoal_describe_node(const char* net_device, const char* peer, shoal_node* node,
                                         shoal_error* error);

/* ---- a scheduler or a server inside this process (the set-up with nothing else running) ---- */

/* Of one role: a certificate and its private key, in PEM form. */
typedef struct shoal_key_pair {
  char cert[2048];
  char key[1024];
} shoal_key_pair;

/* With which the processes of one job know each other. Whoever has a key pair can do what its role may
 * (docs/security.md), so nobody else gets them. They are good for years; the key that signed them is gone. */
typedef struct shoal_keys {
  char ca[2048]; /* who signed all of them, in PEM form */
  shoal_key_pair scheduler;
  shoal_key_pair server;
  shoal_key_pair worker;
  shoal_key_pair operators; /* for shoalctl, from files */
} shoal_keys;

/* Draws keys for a cluster of this job alone: one process draws them, hands them to the others on a way of its own, and
 * each gives them as tls_cert, tls_key and tls_ca of its options. INTERNAL: OpenSSL has no random numbers. */
SHOAL_API shoal_code shoal_draw_keys(shoal_keys* keys, shoal_error* error);

typedef struct shoal_scheduler_options {
  const char* listen;         /* "ip:port"; port 0 picks a free one */
  uint64_t port_buffer_bytes; /* what every switch port between nodes holds at the least, so that chunks fit it; 0: not
                                 known (docs/operating.md) */
  uint32_t encrypt;           /* not 0: what ranks and servers send each other over TCP is encrypted */
  uint32_t insecure_network;  /* not 0: `listen` may be reached by other nodes though there are no certificates; then
                                 everybody on the network can read and end the cluster */
  const char* tls_cert;       /* this and the next two: as in shoal_worker_options; then everybody who calls it has to
                                 show a certificate */
  const char* tls_key;
  const char* tls_ca;
} shoal_scheduler_options;

/* Starts a scheduler that keeps its state in memory. INVALID_ARGUMENT: not an address, ports of more than 1 GiB, or
 * other nodes may reach it, and there are neither certificates nor insecure_network. UNAVAILABLE: it can't be listened
 * on. */
SHOAL_API shoal_code shoal_start_scheduler(const shoal_scheduler_options* options, shoal_service** service,
                                           shoal_error* error);

typedef struct shoal_server_options {
  const char* scheduler;      /* "host:port" */
  const char* advertise;      /* IP at which workers reach this server */
  const char* name;           /* unique in the cluster; NULL: made from node name and process id */
  uint32_t io_threads;        /* 0 means 1 */
  uint64_t slot_memory_bytes; /* 0 means the server's default */
  const char* net_device;     /* one, as in shoal_worker_options */
  const char* transports;
  uint64_t timeout_ms;         /* for registering; 0 means 30000 */
  uint32_t network_only;       /* not 0: use the network also to workers of this node, instead of shared memory */
  const char* flight_recorder; /* as in shoal_worker_options, for groups that fail on this server; no line names the
                                  file */
  const char* tls_cert;        /* this and the next two: as in shoal_worker_options */
  const char* tls_key;
  const char* tls_ca;
} shoal_server_options;

/* Starts a reduction server that serves every job, and returns when it is registered. INVALID_ARGUMENT: an option is
 * wrong, or is not of this node. RESOURCE_EXHAUSTED: no memory for slots. DEADLINE_EXCEEDED: the scheduler did not
 * register it in time. */
SHOAL_API shoal_code shoal_start_server(const shoal_server_options* options, shoal_service** service,
                                        shoal_error* error);

/* "ip:port" of a scheduler, "ip:port,ip:port" of a server's I/O threads. Valid until shoal_service_stop. */
SHOAL_API const char* shoal_service_address(const shoal_service* service);
/* Of a scheduler: how many ranks have joined their jobs and have neither left nor been lost, as of a second or two ago;
 * a job's own scheduler is needed as long as there are any. UINT32_MAX: it is not known yet, or this is a server. */
SHOAL_API uint32_t shoal_service_live_ranks(const shoal_service* service);
/* Stops it and frees the handle. A server leaves the cluster first, but does not wait for the groups that use it. NULL
 * is allowed. */
SHOAL_API void shoal_service_stop(shoal_service* service);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SHOAL_WORKER_H_ */
