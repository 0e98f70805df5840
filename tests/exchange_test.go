package tests

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// exchange is a broker with consumers that redelivers at random: it hands out copies side by side, sends again what was
// acknowledged, and gives back what a consumer had in flight when it went.
type exchange struct {
	mu        sync.Mutex
	changed   *sync.Cond
	waiting   []parcel
	inFlight  int
	delivered int
	closed    bool
	acked     map[string]int // by uuid
	acks      int
	reached   map[int]chan struct{} // by acks, copies included
}

type parcel struct{ key, uuid, payload string }

const (
	again  = 0.2 // of the messages come once more, beside the first or after it was acknowledged
	window = 20  // in flight to a consumer
)

func newExchange() *exchange {
	x := &exchange{acked: map[string]int{}, reached: map[int]chan struct{}{}}
	x.changed = sync.NewCond(&x.mu)
	return x
}

// offer takes a message from a forwarder.
func (x *exchange) offer(e entry) verdict {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enqueue(parcel{e.key, e.uuid, e.payload})
	return takes
}

// enqueue needs mu.
func (x *exchange) enqueue(p parcel) {
	x.waiting = append(x.waiting, p)
	if rand.Float64() < again {
		x.waiting = append(x.waiting, p)
	}
	x.changed.Broadcast()
}

// after is closed once so many deliveries were acknowledged.
func (x *exchange) after(acks int) <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	reached := make(chan struct{})
	x.reached[acks] = reached
	if x.acks >= acks {
		close(reached)
	}
	return reached
}

// state tells how many messages were acknowledged at all, and how many deliveries are still to come or to be answered.
func (x *exchange) state() (messages, open, delivered int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.acked), len(x.waiting) + x.inFlight, x.delivered
}

// serve hands out messages until the test ends, and gives the address.
func (x *exchange) serve(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var consumers sync.WaitGroup
	consumers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			consumers.Go(func() { x.consumer(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		x.mu.Lock()
		x.closed = true
		x.changed.Broadcast()
		x.mu.Unlock()
		consumers.Wait()
	})
	return listener.Addr().String()
}

// consumer serves one connection: it sends number, key, uuid and payload, and gets back the number and a verdict.
func (x *exchange) consumer(conn net.Conn) {
	open := map[int]parcel{}
	gone := false
	var reading sync.WaitGroup
	reading.Go(func() {
		in := bufio.NewScanner(conn)
		for in.Scan() {
			x.answer(open, in.Text())
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		gone = true
		for _, p := range open {
			x.inFlight--
			x.enqueue(p)
		}
	})
	for number := 1; ; number++ {
		x.mu.Lock()
		for !gone && !x.closed && (len(x.waiting) == 0 || len(open) >= window) {
			x.changed.Wait()
		}
		if gone || x.closed {
			x.mu.Unlock()
			break
		}
		i := rand.IntN(min(len(x.waiting), 10*window)) // copies don't keep together
		p := x.waiting[i]
		x.waiting[i] = x.waiting[0]
		x.waiting = x.waiting[1:]
		open[number] = p
		x.inFlight++
		x.delivered++
		x.mu.Unlock()
		_, _ = fmt.Fprintf(conn, "%d\t%s\t%s\t%s\n", number, p.key, p.uuid, p.payload) // else the reader notices
	}
	_ = conn.Close()
	reading.Wait()
}

func (x *exchange) answer(open map[int]parcel, line string) {
	number, ack, _ := strings.Cut(line, "\t")
	n, _ := strconv.Atoi(number)
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := open[n]
	if !ok {
		return
	}
	delete(open, n)
	x.inFlight--
	x.changed.Broadcast()
	if ack != lineAck {
		x.waiting = append(x.waiting, p)
		return
	}
	x.acked[p.uuid]++
	x.acks++
	if reached := x.reached[x.acks]; reached != nil {
		close(reached)
	}
	if rand.Float64() < again {
		x.waiting = append(x.waiting, p)
	}
}
