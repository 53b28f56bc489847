// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"container/list"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// Bounds of what reviews may hold at a time, over all connections. Anybody who reaches the port can send a review, so
// nothing is allocated because somebody announces to send it.
const (
	maxReview = 5 << 20 // etcd takes objects of 1.5 MB, and a review of an update holds two

	reviewCost = 8 << 10     // what a request takes besides its body
	firstRead  = 16 << 10    // a review of a usual pod is smaller
	smallBody  = 64 << 10    // larger bodies are counted, and decoded, apart from the usual ones
	smallBytes = 16 << 20    // for all small bodies
	largeBytes = 24 << 20    // for all large ones
	largeWait  = time.Second // how long a large body waits for its turn to be decoded
)

var (
	errBusy   = errors.New("too many reviews at a time")
	errTooBig = errors.New("request payload too large")
)

// An intake bounds the memory of the reviews that are being answered. Small and large bodies are counted apart, so that
// large ones cannot keep the usual ones out. When there is no room, the review that has been waiting for its sender for the
// longest time gives way: its body arrives slowly, or its answer is not taken. Reviews that were sent to be held back have
// waited longer than any that the API server sends.
type intake struct {
	mu           sync.Mutex
	small, large lane
	decoding     chan struct{} // holds one entry for each large body that is being decoded
}

// A lane counts the bytes of some reviews.
type lane struct {
	limit, held int
	arriving    list.List // of *ticket that wait for their sender, the one that began first in front
}

// A ticket is what one review holds.
type ticket struct {
	intake  *intake
	lane    *lane
	held    int
	place   *list.Element // among those arriving, nil when it does not wait for its sender
	evicted bool          // it had to give way; it holds nothing any more
	abort   func()        // ends the wait for the sender; called with the mutex held
}

func newIntake() *intake {
	return &intake{
		small: lane{limit: smallBytes}, large: lane{limit: largeBytes},
		decoding: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// enter lets a review in, or returns nil when there is no room. The caller must call leave.
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

// grow makes room for a body of n bytes, and reports whether there is.
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

// hold makes the ticket hold n bytes of a lane. Others that are still arriving give way.
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
	t.lane, t.held = l, n
	return true
}

// release gives everything back.
func (t *ticket) release() {
	if t.place != nil {
		t.lane.arriving.Remove(t.place)
		t.place = nil
	}
	if t.lane != nil {
		t.lane.held -= t.held
	}
	t.held = 0
}

// arrived says that the body is complete: the ticket does not give way any more. It reports false if it did before.
func (t *ticket) arrived() bool {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	if t.place != nil {
		t.lane.arriving.Remove(t.place)
		t.place = nil
	}
	return !t.evicted
}

// decoded says that the body is not needed any more.
func (t *ticket) decoded() {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	if !t.evicted {
		t.release()
		t.hold(&t.intake.small, reviewCost) // if there is no room for so little, it is not counted
	}
}

// answers says that the answer is being sent: until leave the ticket gives way again, and abort ends the sending. It reports
// false if there is no room for that. Abort is called with the mutex held.
func (t *ticket) answers(abort func()) bool {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	t.release()
	if !t.hold(&t.intake.small, reviewCost) {
		return false
	}
	t.evicted, t.abort = false, abort
	t.place = t.lane.arriving.PushBack(t)
	return true
}

// leave ends the review.
func (t *ticket) leave() {
	t.intake.mu.Lock()
	defer t.intake.mu.Unlock()
	t.release()
}

// turn waits until a body of n bytes may be decoded, and returns what to call afterwards. Large bodies take turns, so that
// decoding them leaves a processor to the others.
func (in *intake) turn(r *http.Request, n int) (done func(), err error) {
	if n <= smallBody {
		return func() {}, nil
	}
	wait := time.NewTimer(largeWait)
	defer wait.Stop()
	select {
	case in.decoding <- struct{}{}:
		return func() { <-in.decoding }, nil
	case <-wait.C:
		return nil, errBusy
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// read reads the body of a request as it arrives.
func (t *ticket) read(r *http.Request) ([]byte, error) {
	most := maxReview
	if r.ContentLength > maxReview {
		return nil, errTooBig
	}
	if r.ContentLength >= 0 {
		most = int(r.ContentLength)
	}
	// One byte more than there may be, so that the end of the body is seen without growing.
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
		case errors.Is(err, io.EOF):
			if !t.arrived() {
				return nil, errBusy
			}
			return body, nil
		case err != nil:
			if !t.arrived() {
				return nil, errBusy
			}
			return nil, err
		}
		if len(body) == cap(body) {
			size := min(2*cap(body), most+1)
			if size <= cap(body) { // more than was announced; net/http does not let that happen
				return nil, io.ErrUnexpectedEOF
			}
			if !t.grow(size) {
				return nil, errBusy
			}
			body = append(make([]byte, 0, size), body...)
		}
	}
}
