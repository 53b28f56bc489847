// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// A projectedWatch applies a function to each event of a watch and reports when the watch has ended. Unlike watch.Filter, it ends
// when it is stopped, even if the last event is not read.
type projectedWatch struct {
	from   watch.Interface
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

// projectWatch returns a watch whose events are the results of apply. It calls ended when the watch has ended.
func projectWatch(from watch.Interface, apply func(watch.Event) watch.Event, ended func()) watch.Interface {
	w := &projectedWatch{from: from, result: make(chan watch.Event), done: make(chan struct{})}
	go func() {
		defer close(w.result)
		defer ended()
		for e := range from.ResultChan() {
			select {
			case w.result <- apply(e):
			case <-w.done:
				return
			}
		}
	}()
	return w
}

// ResultChan implements watch.Interface.
func (w *projectedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *projectedWatch) Stop() {
	w.stop.Do(func() {
		close(w.done)
		w.from.Stop()
	})
}
