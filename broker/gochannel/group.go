package gochannel

import (
	"container/heap"
	"context"
)

// group is what a consumer group has before it. The topic's lock guards it.
type group struct {
	topic *topic
	ready queue
	// behind has what waits for an earlier message of its key, which is ready or in a subscriber's hands: a key is in the map
	// as long as there is one.
	behind  map[string][]*entry
	changed chan struct{} // closed, and made anew, when something gets ready
}

// add takes what was published. The caller has the lock.
func (g *group) add(e *entry) {
	if e.key != "" {
		waiting, busy := g.behind[e.key]
		if busy {
			g.behind[e.key] = append(waiting, e)
			return
		}
		g.behind[e.key] = nil
	}
	g.push(e)
}

func (g *group) push(e *entry) {
	heap.Push(&g.ready, e)
	close(g.changed)
	g.changed = make(chan struct{})
}

// take waits for the oldest message that may be delivered. It is acked or released afterwards.
func (g *group) take(ctx context.Context) (*entry, error) {
	for {
		g.topic.mu.Lock()
		if len(g.ready) > 0 && ctx.Err() == nil {
			e := heap.Pop(&g.ready).(*entry) //nolint:forcetypeassert // the queue has nothing else
			g.topic.mu.Unlock()
			return e, nil
		}
		changed := g.changed
		g.topic.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// release gives back what was not acked, to its place.
func (g *group) release(e *entry) {
	g.topic.mu.Lock()
	defer g.topic.mu.Unlock()
	g.push(e)
}

// ack ends a message for this group, and for the topic if it was the last one.
func (g *group) ack(e *entry) {
	g.topic.mu.Lock()
	defer g.topic.mu.Unlock()
	e.left--
	if e.left == 0 {
		delete(g.topic.kept, e.seq)
	}
	if e.key == "" {
		return
	}
	waiting := g.behind[e.key]
	if len(waiting) == 0 {
		delete(g.behind, e.key)
		return
	}
	g.behind[e.key] = waiting[1:]
	g.push(waiting[0])
}

// queue is a heap with the oldest on top.
type queue []*entry //nolint:recvcheck // as heap.Interface has it

// Len is how many there are.
func (q queue) Len() int { return len(q) }

// Less puts the older one first.
func (q queue) Less(i, j int) bool { return q[i].seq < q[j].seq }

// Swap exchanges two.
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is called by the heap.
func (q *queue) Push(e any) { *q = append(*q, e.(*entry)) } //nolint:forcetypeassert // the queue has nothing else

// Pop is called by the heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
