// Small calls outside of graphs, computed by the thread that asks for them.
//
// MXNet hands such a call to a thread of its engine. That takes longer than a small tensor's computation, and far longer
// where other processes want the processors. torch and onnxruntime compute in the calling thread.
#pragma once

namespace gluonops {

// NOT_NOW: the engine has to do it. The inputs are not computed yet, are large, or lie elsewhere; or the call is recorded.
enum Answer { COMPUTED, NOT_NOW, REFUSED };

// Finds what call_directly() needs of MXNet's library, which dlopen has returned. Without it every answer is NOT_NOW.
void find_engine(void *library);

// An operator with its attributes.
class PreparedCall;

// The operator of this library with that name in graphs, and its attributes' names and values; nullptr if there is no
// such operator. forget_call() ends it.
PreparedCall *prepare_call(const char *graph_name, int attributes, const char *const *names, const char *const *texts);
void forget_call(PreparedCall *call);

// Computes the outputs, new NDArrays, if the inputs are ready; does not wait for them. `tensors` are handles: the inputs,
// and behind them room for the outputs.
Answer call_directly(PreparedCall *call, void **tensors);

// Why the answer to the thread's last call was REFUSED.
const char *error_of_direct_call();

}  // namespace gluonops
