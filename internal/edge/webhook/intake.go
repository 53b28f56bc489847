// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"container/list"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bounds on the memory of all reviews at the same time, over all connections. Any client that reaches the port can send a review, so
// memory is allocated when data arrives, not when a client announces it.
const (
	maxReview = 5 << 20 // etcd takes objects of 1.5 MB, and a review of an update holds two

	reviewCost = 8 << 10     // memory of a request without its body
	firstRead  = 16 << 10    // larger than the review of an ordinary pod
	smallBody  = 64 << 10    // larger bodies have a separate budget and are decoded in turn
	smallBytes = 16 << 20    // for all small bodies
	largeBytes = 24 << 20    // for all large ones
	largeWait  = time.Second // how long a large body waits to be decoded
)

var (
	errBusy   = errors.New("too many reviews at the same time")
	errTooBig = errors.New("request payload too large")
)

// An intake bounds the memory of the reviews in progress. Small and large bodies have separate budgets, so that large ones cannot block
// ordinary ones. If a budget is exhausted, the review that has waited longest for its client is aborted: its body arrives slowly, or the
// client does not read the answer. Reviews of slow clients have waited longer than any review of the API server.
type intake struct {
	mu           sync.Mutex
	small, large lane
	decoding     *semaphore.Weighted // one for each large body that is being decoded
}

// A lane is the budget of the small or of the large reviews.
type lane struct {
	limit, held int
	arriving    list.List // of *ticket that wait for their clients, the oldest first
}

// A ticket is the memory that one review has reserved.
type ticket struct {
	intake  *intake
	lane    *lane
	held    int
	place   *list.Element // in lane.arriving; nil if it does not wait for its client
	evicted bool          // it was aborted; it has reserved nothing
	abort   func()        // ends the wait for the client; called with the mutex held
}

func newIntake() *intake {
	return &intake{
		small: lane{limit: smallBytes}, large: lane{limit: largeBytes},
		decoding: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
	}
}

// enter reserves memory for a review, or returns nil if the budget is exhausted. The caller must call leave.
func (in *intake) enter(abort func()) *ticket {
	in.mu.Lock()
	defer in.mu.Unlock()
	t := &ticket{intake: in, abort: abort}
	if !t.hold(&in.small, reviewCost) {
		return nil
	}
	t.place = in.small.arriving.PushBack(t)
	return t
}

// grow reserves memory for a body of n bytes, and reports whether it could.
func (t *ticket) grow(n int) bool {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	if t.evicted {
		return false
	}
	if t.lane == &t.intake.large || n <= smallBody {
		return t.hold(t.lane, n+reviewCost)
	}
	t.release()
	if !t.hold(&t.intake.large, n+reviewCost) {
		return false
	}
	t.place = t.lane.arriving.PushBack(t)
	return true
}

// hold reserves n bytes of a lane. It aborts tickets that wait for their clients if it has to.
func (t *ticket) hold(l *lane, n int) bool {
	more := n - t.held
	for oldest := l.arriving.Front(); l.held+more > l.limit; oldest = l.arriving.Front() {
		if oldest == t.place && oldest != nil {
			oldest = oldest.Next()
		}
		if oldest == nil {
			return false
		}
		other := oldest.Value.(*ticket)
		other.release()
		other.evicted = true
		other.abort()
	}
	l.held += more
	t.lane = l
	t.held = n
	return true
}

// settle records that the ticket does not wait for its client any more, so that it cannot be aborted.
func (t *ticket) settle() {
	if t.place != nil {
		t.lane.arriving.Remove(t.place)
		t.place = nil
	}
}

// release returns the reserved memory to the lane.
func (t *ticket) release() {
	t.settle()
	if t.lane != nil {
		t.lane.held -= t.held
	}
	t.held = 0
}

// arrived records that the body is complete, so that the ticket cannot be aborted any more. It returns false if it was aborted before.
func (t *ticket) arrived() bool {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	t.settle()
	return !t.evicted
}

// decoded releases the memory of the body.
func (t *ticket) decoded() {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	if !t.evicted {
		t.release()
		t.hold(&t.intake.small, reviewCost) // if that fails, the rest of the review is not counted
	}
}

// answers records that the answer is being sent. Until leave is called, the ticket can be aborted, and abort ends the sending; it is
// called with the mutex held. answers returns false if the budget is exhausted.
func (t *ticket) answers(abort func()) bool {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	t.release()
	if !t.hold(&t.intake.small, reviewCost) {
		return false
	}
	t.evicted = false
	t.abort = abort
	t.place = t.lane.arriving.PushBack(t)
	return true
}

// leave releases all memory of the review.
func (t *ticket) leave() {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	t.release()
}

// turn waits until a body of n bytes may be decoded, and returns a function to call afterwards. The number of large bodies that are
// decoded at the same time is limited, so that processors stay free for ordinary ones.
func (in *intake) turn(r *http.Request, n int) (done func(), err error) {
	if n <= smallBody {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), largeWait)
	defer cancel()
	if in.decoding.Acquire(ctx, 1) == nil {
		return func() { in.decoding.Release(1) }, nil
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return nil, errBusy
}

// read returns the body of a request. It reserves memory as data arrives.
func (t *ticket) read(r *http.Request) ([]byte, error) {
	most := maxReview
	if r.ContentLength > maxReview {
		return nil, errTooBig
	}
	if r.ContentLength >= 0 {
		most = int(r.ContentLength)
	}
	// One byte more than the maximum, so that the end of the body is seen without growing the buffer.
	body := make([]byte, 0, min(most, firstRead)+1)
	if !t.grow(cap(body)) {
		return nil, errBusy
	}
	for {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > maxReview:
			return nil, errTooBig
		case err != nil && !t.arrived():
			return nil, errBusy
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
		if len(body) == cap(body) {
			size := min(2*cap(body), most+1)
			if size <= cap(body) { // more than announced; net/http prevents this
				return nil, io.ErrUnexpectedEOF
			}
			if !t.grow(size) {
				return nil, errBusy
			}
			body = append(make([]byte, 0, size), body...)
		}
	}
}
