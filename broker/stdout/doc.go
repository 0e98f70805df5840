// Package stdout prints messages instead of sending them to a broker: for trying, and for what reads a program's output.
// Nothing can be received from it.
//
//	stdout://?parameter=value
//
// Each message is a line of its own, also when many are published at the same time:
//
//	{"topic":"orders","key":"c1","uuid":"01J…","metadata":{"outbox_key":"c1"},"payload":"paid"}
//
// A payload that is not UTF-8 is payload_base64 instead of payload; one that is nil is neither. A key, metadata or a UUID
// that is empty is left out. What is not UTF-8 in a topic, a key, a UUID or metadata is printed as U+FFFD.
//
// # Parameters
//
//	format  json (the default), or text, which is for the eye and need not stay as it is
//
// # Failures
//
// None is permanent: whatever goes wrong with the output is an outage. A line that was torn by an error is printed again,
// as a whole, below what was printed of it. Note that a Go program ends by SIGPIPE when nobody reads its standard output
// any more, unless it asks for that signal.
package stdout
