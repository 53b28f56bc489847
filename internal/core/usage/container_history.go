// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"time"

	"podfit.dev/podfit/internal/core/changelog"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/codec"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/runs"
	"podfit.dev/podfit/internal/core/startup"
)

// A ContainerHistory is the usage history of one container of a workload: of all its pods together, over rollouts and restarts. Only
// the Store and SetChanges change it; read it between two calls to the Store.
type ContainerHistory struct {
	CPU    histogram.Histogram // all samples, in cores
	Memory histogram.Histogram // one peak per pod and interval, in bytes; an OOM kill counts as a higher peak

	record

	container   string
	load        *workload
	cpu, memory seen
	rules       *rules    // the Store's, or the container's own
	extension   Extension // nil without Store.Extend
	instances   *instance // the tracked pods that have this container
	restored    *restored // restored data that waits for pods or an extension; nil for none

	kill           lastKill // by OOM
	savedAt        int64    // when it was last written to a checkpoint
	version, saved uint32
	live           int32 // live pods that have this container
	stale          bool  // no live pod has it, though the workload has live pods
	loaded         bool  // a checkpoint has been restored
	alignCPU       bool  // the next sample is the first after a checkpoint
	alignMemory    bool
}

// A record is what is stored beside usage.
type record struct {
	starts  *startup.Starts  // the last starts; nil for none, and without Store.LearnStarts
	changes *changelog.Log   // of the recommendation
	former  cluster.Workload // whose history was added (Store.Continue); not stored
	runs    *runs.Log        // the last runs; nil for a container that does not run to its end
}

// Container returns the container's name.
func (s *ContainerHistory) Container() string { return s.container }

// Length returns how long usage is kept without model state: memory-aggregation-interval times its count.
func (s *ContainerHistory) Length() time.Duration { return s.rules.keep() }

// Workload returns the workload of the container.
func (s *ContainerHistory) Workload() cluster.Workload { return s.load.key }

// Stale reports whether live pods exist and none of them has the container. If a workload has no live pod, the containers of its last
// pods are not stale.
func (s *ContainerHistory) Stale() bool { return s.stale }

// A Span is the number of samples of a resource and the time that they cover.
type Span struct {
	First, Last time.Time // when the first and last sample were taken; zero when there was none
	Count       int
}

// Seen returns the span of the samples of a resource. For memory these are samples, not peaks.
func (s *ContainerHistory) Seen(r cluster.Resource) Span {
	n := cluster.Pick(r, &s.cpu, &s.memory)
	return Span{First: stamp(n.first), Last: stamp(n.last), Count: int(n.count)}
}

// LastOOM returns the time of the last OOM kill, the memory, in bytes, that it showed to be needed, and the highest memory limit at which this process
// has observed a kill. The time is zero if there was none.
func (s *ContainerHistory) LastOOM() (at time.Time, needed, limit int64) {
	return stamp(s.kill.at), s.kill.needed, s.kill.limit
}

// Extension returns the extension of the ContainerHistory, or nil (Store.Extend).
func (s *ContainerHistory) Extension() Extension { return s.extension }

// Changes returns the last changes of the recommendation of the container.
func (s *ContainerHistory) Changes() *changelog.Log { return s.changes }

// SetChanges replaces the changes of the recommendation.
func (s *ContainerHistory) SetChanges(l *changelog.Log) {
	s.changes = l
	s.version++
}

// Starts returns the last starts of the container, nil if there are none (Store.LearnStarts).
func (s *ContainerHistory) Starts() *startup.Starts { return s.starts }

// Runs returns the last runs of the container, nil if it is no init container, and its workload no Job or CronJob (Config.Runs, Config.InitRuns).
func (s *ContainerHistory) Runs() *runs.Log { return s.runs }

// With returns a copy for reading that has another extension. It is valid until the next call to the Store.
func (s *ContainerHistory) With(e Extension) *ContainerHistory {
	c := *s
	c.extension = e
	return &c
}

// An Extension is the model state that an algorithm keeps of a container beside the two histograms. A ContainerHistory has one only
// after Store.Extend. It receives every accepted sample and every OOM kill once, in the order in which they arrive.
type Extension interface {
	// Observe adds a sample, of which the resources in taken were accepted. It must not allocate in the long run.
	Observe(s Sample, taken cluster.Set)
	// ObserveOOM adds an OOM kill and the memory, in bytes, that it showed to be needed.
	ObserveOOM(o OOM, needed int64)
	// CPUWeight returns the weight of a CPU sample in the histogram, by the cores that the container requested when the
	// sample was taken. It returns SampleWeight where all samples weigh the same.
	CPUWeight(request float64) float64

	// AppendBinary and UnmarshalBinary store the model state over a restart, as History.Data: keep it small. When
	// UnmarshalBinary fails, the extension does not change.
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
	// Form names the format of the stored data. Data of another form is not read. If either form is empty, the data is read.
	Form() string
	// Since returns the time of the oldest observation in the model state; the zero time if it is empty or not known.
	Since() time.Time
	// Latest returns the newest time in the model state. Stored model state from the future is not read.
	Latest() time.Time
}

// Unstored has the methods of an Extension whose model state is not stored: that of a comparison profile, which ends with the
// backtest, or none at all.
type Unstored struct{}

// CPUWeight implements Extension.
func (Unstored) CPUWeight(float64) float64 { return SampleWeight }

// AppendBinary implements Extension.
func (Unstored) AppendBinary(b []byte) ([]byte, error) { return b, nil }

// UnmarshalBinary implements Extension.
func (Unstored) UnmarshalBinary(data []byte) error {
	return codec.NewDecoder(data).Finish("empty model state")
}

// Form implements Extension.
func (Unstored) Form() string { return "" }

// Since implements Extension.
func (Unstored) Since() time.Time { return time.Time{} }

// Latest implements Extension.
func (Unstored) Latest() time.Time { return time.Time{} }

// seen counts samples. Times are Unix nanoseconds, 0 before the first.
type seen struct{ first, last, count int64 }

func (n *seen) add(at int64) {
	if n.first == 0 || at < n.first {
		n.first = at
	}
	n.last = max(n.last, at)
	n.count++
}

func (n *seen) merge(o seen) {
	if n.first == 0 || o.first != 0 && o.first < n.first {
		n.first = o.first
	}
	n.last = max(n.last, o.last)
	n.count += o.count
}

func (s *ContainerHistory) unlink(in *instance) {
	if in.prev != nil {
		in.prev.next = in.next
	} else {
		s.instances = in.next
	}
	if in.next != nil {
		in.next.prev = in.prev
	}
	in.prev = nil
	in.next = nil
}

func (s *ContainerHistory) link(in *instance) {
	in.series = s
	in.next = s.instances
	if s.instances != nil {
		s.instances.prev = in
	}
	s.instances = in
}

// lastSeen returns the time of the last sample or OOM kill, or 0.
func (s *ContainerHistory) lastSeen() int64 { return max(s.cpu.last, s.memory.last, s.kill.at) }

// lastKnown returns lastSeen, or the time of the restored model state if there are no samples.
func (s *ContainerHistory) lastKnown() int64 {
	if last := s.lastSeen(); last != 0 || s.restored == nil {
		return last
	}
	return s.restored.known
}

// stamp converts Unix nanoseconds to a time; 0 is the zero time.
func stamp(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at).UTC()
}

// nanos converts a time to Unix nanoseconds. It is not ok for times before 1970 or after 2200.
func nanos(t time.Time) (int64, bool) {
	if second := t.Unix(); second <= 0 || second >= codec.MaxSecond {
		return 0, false
	}
	return t.UnixNano(), true
}
