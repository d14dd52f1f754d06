// The sources that include torch, compiled as one: each of them takes seven seconds to read torch's headers.
#include "pytorch/src/all_reduce_work.cc"
#include "pytorch/src/module.cc"
#include "pytorch/src/shoal_backend.cc"
#include "pytorch/src/shoal_backend_delegated.cc"
#include "pytorch/src/shoal_backend_feedback.cc"
#include "pytorch/src/staged_tensor.cc"
#include "pytorch/src/works.cc"
