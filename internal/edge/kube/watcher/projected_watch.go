// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// A projectedWatch passes events on after applying a function to each, and says when it has ended. Unlike watch.Filter it
// ends when it is stopped, even if nobody reads the last event.
type projectedWatch struct {
	from   watch.Interface
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

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

func (w *projectedWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *projectedWatch) Stop() {
	w.stop.Do(func() {
		close(w.done)
		w.from.Stop()
	})
}
