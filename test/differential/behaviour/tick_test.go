// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import "time"

// tick is the time between two steps of the cluster in worlds with the defaults of podfit. It is a multiple of the shortest time between
// two early passes.
const tick = 5 * time.Second

// ticks runs the steps of the cluster up to the beginning of a minute. After each step that changes something it calls onTick, as a change
// of a pod starts an early pass. Not every change does so in a cluster: the simulated updater has more early passes than a real one.
func (s *simulation) ticks(minute int) {
	for at := time.Since(s.started).Truncate(tick) + tick; at < time.Duration(minute)*time.Minute; at += tick {
		time.Sleep(time.Until(s.started.Add(at)))
		if s.stepped < s.minute() {
			s.catchUp()
			continue
		}
		revision := s.revision
		s.progress(s.minute())
		if s.revision != revision && s.onTick != nil {
			s.onTick()
		}
	}
}

// progress runs the controllers, the scheduler and the kubelets between two minutes.
func (s *simulation) progress(minute int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.workloads {
		s.progressOf(w, minute)
	}
}

// progressOf runs them for one workload.
func (s *simulation) progressOf(w *simulated, minute int) {
	s.replace(w, minute)
	for _, p := range w.pods {
		s.schedule(p)
		s.run(w, p, minute)
	}
}

// clock returns the time of a step of the cluster since the start of the simulation in the unit of the workload's OOM kills: seconds or minutes.
func (s *simulation) clock(w *simulated, minute int) int {
	if w.OOM.Seconds > 0 {
		return int(time.Since(s.started) / time.Second)
	}
	return minute
}

// lives returns the time from the start of a container to its OOM kill.
func (o outOfMemory) lives() time.Duration {
	if o.Seconds > 0 {
		return time.Duration(o.Seconds) * time.Second
	}
	return time.Duration(o.Every) * time.Minute
}

// after returns the time from the start of a container to its OOM kill or, if it has been restarted, the time until it is restarted again.
func (o outOfMemory) after(restarts int32) int {
	switch {
	case o.Seconds == 0:
		return o.Every
	case restarts == 0:
		return o.Seconds
	}
	return min(int(10)<<min(restarts-1, 10), 300) // the back-off of the kubelet
}
