// Package gochannel is a broker inside of the process, for trying and for tests. What is in it ends with the process.
//
//	gochannel://name?parameter=value
//
// Every Open of a name in a process meets the same one, so that a forwarder and a consumer of one program do. It is not
// Watermill's GoChannel, which has no consumer groups, and lets go of what is published before somebody subscribes.
//
// # Parameters
//
//	max_messages  how many messages a topic keeps at most; defaults to 100000. A publish beyond it fails with ErrFull
//
// # What is kept
//
// A message is kept in memory until each group that there is has acked it; while a topic has no group, all of its messages
// are kept. A group is there from its first Subscribe (or SubscribeInitialize) on, until the process ends: it also gets
// what is published while none of its subscribers is there. So one that nobody serves any more fills the topic.
//
// # Order
//
// A subscriber gets one message after the other, the oldest first, and the same one again after a nack. Subscribers of
// one group share a topic's messages: each gets the oldest whose key no other of them has in its hands.
//
// # Failures
//
// None is permanent. ErrFull and broker.ErrClosed are an outage: no message is at fault.
package gochannel
