// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
)

const (
	mib   = 1 << 20
	start = 1_372_629_804
)

// draw returns a random workload: with gaps, several pods and containers, and some samples of only one resource.
func draw(t *rapid.T) *Workload {
	w := &Workload{Key: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"}}
	for i := range rapid.IntRange(1, 2).Draw(t, "pods") {
		w.Pods = append(w.Pods, fmt.Sprint("cart-", i))
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "containers") {
		w.Containers = append(w.Containers, fmt.Sprint("c", i))
	}
	at := int64(start)
	level := 100.0
	for range rapid.IntRange(1, 150).Draw(t, "samples") {
		at += rapid.SampledFrom([]int64{0, 1, 60, 300, 300, 3600, 5 * 3600, 30 * 3600, 9 * 86400}).Draw(t, "step")
		level = min(max(level*rapid.SampledFrom([]float64{1, 1, 1.1, 0.9, 3, 0.3}).Draw(t, "factor"), 1), 1e5)
		w.Samples = append(w.Samples, Sample{
			At: at, CPU: level / 100, Memory: level * mib,
			Pod:       int32(rapid.IntRange(0, len(w.Pods)-1).Draw(t, "pod")),
			Container: int16(rapid.IntRange(0, len(w.Containers)-1).Draw(t, "container")),
			Has:       rapid.SampledFrom([]cluster.Set{cluster.Both, cluster.Both, cluster.Of(cluster.CPU), cluster.Of(cluster.Memory)}).Draw(t, "has"),
		})
	}
	w.Sort()
	return w
}

func TestRun_laterSamplesRemovedOrChanged_earlierChangesStay(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			w := draw(t)
			cut := w.Samples[rapid.IntRange(0, len(w.Samples)-1).Draw(t, "cut")].At + rapid.Int64Range(-400, 90_000).Draw(t, "after")
			before := w.Between(0, cut)
			other := *w // with other values from the cut on
			other.Samples = slices.Clone(w.Samples)
			for i := range other.Samples {
				if s := &other.Samples[i]; s.At >= cut {
					s.CPU = s.CPU*5 + 1
					s.Memory *= 3
				}
			}
			want := until(w, p, cut)
			for name, x := range map[string]*Workload{"cut": compact(&before), "changed": &other} {
				if got := until(x, p, cut); !slices.Equal(got, want) {
					t.Fatalf("%s: with the trace %s at %d, the changes before are\n%v, with the whole trace\n%v", p.Name, name, cut, got, want)
				}
			}
		})
	}
}

// compact returns a workload without the pods and containers that have no samples, as if it were read from a file.
func compact(w *Workload) *Workload {
	out := &Workload{Key: w.Key}
	indices := func(all []string, has func(Sample, int) bool) (names []string, newIndex []int) {
		newIndex = make([]int, len(all))
		for i, name := range all {
			if slices.ContainsFunc(w.Samples, func(s Sample) bool { return has(s, i) }) {
				newIndex[i] = len(names)
				names = append(names, name)
			}
		}
		return names, newIndex
	}
	var pods, containers []int
	out.Pods, pods = indices(w.Pods, func(s Sample, i int) bool { return int(s.Pod) == i })
	out.Containers, containers = indices(w.Containers, func(s Sample, i int) bool { return int(s.Container) == i })
	for _, s := range w.Samples {
		s.Pod = int32(pods[s.Pod])
		s.Container = int16(containers[s.Container])
		out.Samples = append(out.Samples, s)
	}
	return out
}

// A named is a Change with the name of its container.
type named struct {
	at                  int64
	container, resource string
	request             int64
}

// until returns the changes up to a time, sorted by time, container and resource.
func until(w *Workload, p recommend.Profile, cut int64) []named {
	var out []named
	for _, c := range Run(w, p) {
		if c.At <= cut {
			out = append(out, named{c.At, w.Containers[c.Container], c.Resource.String(), c.Request})
		}
	}
	slices.SortStableFunc(out, func(a, b named) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.container, b.container), cmp.Compare(a.resource, b.resource))
	})
	return out
}

// The minimum size of a pod is shared by its containers.
func TestRun_containerAppearsLater_hasNoShareOfTheMinimumBefore(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		w := steady(4, 0.001, 1*mib)
		alone := until(w, p, w.Samples[len(w.Samples)-1].At)
		appears := w.Samples[2*288].At
		w.Containers = []string{"proxy", "app"} // the later container has the lower index
		for i := range w.Samples {
			w.Samples[i].Container = 1
		}
		for i := 2 * 288; i < 4*288; i++ {
			w.Samples = append(w.Samples, Sample{At: start + int64(i)*300, CPU: 0.3, Memory: 400 * mib, Has: cluster.Both})
		}
		w.Sort()
		both := until(w, p, w.Samples[len(w.Samples)-1].At)
		first := func(changes []named) (out []named) {
			for _, c := range changes {
				if c.at <= appears {
					out = append(out, c)
				}
			}
			return out
		}
		if !slices.Equal(first(both), first(alone)) {
			t.Errorf("%s: with a container that appears later, the changes before are\n%v, without it\n%v", p.Name, first(both), first(alone))
		}
		if !slices.ContainsFunc(both, func(c named) bool { return c.container == "proxy" && c.resource == "memory" && c.request >= 400*mib }) {
			t.Errorf("%s: no request of at least 400 MiB for the later container:\n%v", p.Name, both)
		}
		if !slices.ContainsFunc(both, func(c named) bool { return c.container == "app" && c.at > appears && c.request < both[1].request }) {
			t.Errorf("%s: the first container keeps the whole minimum when there are two containers:\n%v", p.Name, both)
		}
	}
}

func TestRun_randomUsage_requestsChangeOncePerMinuteAndOnlyIfTheyDiffer(t *testing.T) {
	type id struct {
		container int16
		resource  cluster.Resource
	}
	for _, p := range recommend.BacktestProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			w := draw(t)
			last := map[id]Change{}
			for _, c := range Run(w, p) {
				k := id{c.Container, c.Resource}
				before, ok := last[k]
				switch {
				case c.Request <= 0:
					t.Fatalf("%s: request is %d, want more than 0", p.Name, c.Request)
				case ok && before.At > c.At-60:
					t.Fatalf("%s: changes at %d and %d are less than a minute apart", p.Name, before.At, c.At)
				case ok && before.Request == c.Request:
					t.Fatalf("%s: change to the same request %d", p.Name, c.Request)
				case !ok && !slices.ContainsFunc(w.Samples, func(s Sample) bool {
					return s.Container == c.Container && s.Has.Has(c.Resource) && s.At < c.At
				}):
					t.Fatalf("%s: request for %s before its first sample", p.Name, c.Resource)
				}
				last[k] = c
			}
		})
	}
}

// steady returns one container with constant usage.
func steady(days int, cores, bytes float64) *Workload {
	w := &Workload{
		Key:  cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"},
		Pods: []string{"cart-0"}, Containers: []string{"app"},
	}
	for i := range days * 288 {
		w.Samples = append(w.Samples, Sample{At: start + int64(i)*300, CPU: cores, Memory: bytes, Has: cluster.Both})
	}
	return w
}

func TestRun_memoryAboveRequest_requestGrowsWithinAMinute(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		w := steady(10, 0.1, 500*mib)
		k := len(w.Samples) - 10
		w.Samples[k].Memory = 3000 * mib
		killed := w.Samples[k].At
		changes := Run(w, p)
		i := slices.IndexFunc(changes, func(c Change) bool { return c.At > killed && c.Resource == cluster.Memory })
		if i < 0 {
			t.Fatalf("%s: no change after the OOM kill", p.Name)
		}
		c := changes[i]
		if c.At > killed+60 || c.Request < 3000*mib {
			t.Errorf("%s: %d s after an OOM kill at 3000 MiB, the request is %d MiB", p.Name, c.At-killed, c.Request/mib)
		}
	}
}

func TestRun_defaultProfileSlowGrowth_changesAreTwelveHoursApart(t *testing.T) {
	w := steady(6, 0.2, 500*mib)
	for i := range w.Samples {
		w.Samples[i].CPU = 0.2 + 0.3*float64(i)/float64(len(w.Samples)) // slow growth
	}
	p, _ := recommend.BacktestProfile("default")
	var times []int64
	for _, c := range Run(w, p) {
		if c.Resource == cluster.CPU {
			times = append(times, c.At)
		}
	}
	if len(times) < 4 {
		t.Fatalf("got %d changes of CPU, want at least 4", len(times))
	}
	for i := 1; i < len(times); i++ {
		if times[i]-times[i-1] < 12*3600 {
			t.Errorf("changes at %d and %d, less than 12 hours apart", times[i-1], times[i])
		}
	}
}

// measureTwin is a simple implementation of Measure, which searches the effective request for each sample.
func measureTwin(w *Workload, changes []Change, container int16, r cluster.Resource) map[int]Day {
	var first, last int64 = -1, 0
	for _, s := range w.Samples {
		if s.Container == container {
			if first < 0 {
				first = s.At
			}
			last = s.At
		}
	}
	unit := 1.0
	if r == cluster.CPU {
		unit = 0.001
	}
	request := func(at int64) float64 {
		v := 0.0
		for _, c := range changes {
			if c.Container == container && c.Resource == r && c.At <= at {
				v = float64(c.Request) * unit
			}
		}
		return v
	}
	out := map[int]Day{}
	values := map[int][]float64{}
	above := map[[2]int]bool{} // by day and pod: the last sample was above the request
	for _, s := range w.Samples {
		if s.Container != container || !s.Has.Has(r) {
			continue
		}
		n := int((s.At - first) / 86400)
		if n < DefaultLearning || last < first+int64(n+1)*86400-3600-1 { // incomplete last day
			continue
		}
		v := s.Memory
		if r == cluster.CPU {
			v = s.CPU
		}
		d := out[n]
		d.Number = n
		d.Samples++
		d.Used += v
		q := request(s.At)
		if v > q {
			d.Above++
			d.Over += v - q
		}
		if run := [2]int{n, int(s.Pod)}; v > q && !above[run] {
			d.Events++
		}
		above[[2]int{n, int(s.Pod)}] = v > q
		out[n] = d
		values[n] = append(values[n], v)
	}
	for n, d := range out {
		slices.Sort(values[n])
		d.P95 = values[n][int(math.Ceil(0.95*float64(len(values[n]))))-1]
		from := first + int64(n)*86400
		to := min(from+86400, last+1)
		marks := []int64{from, to}
		for _, c := range changes {
			if c.Container == container && c.Resource == r && c.At >= from && c.At < to {
				d.Changes++
				marks = append(marks, c.At)
			}
		}
		slices.Sort(marks)
		sum := 0.0
		for i := 1; i < len(marks); i++ {
			sum += request(marks[i-1]) * float64(marks[i]-marks[i-1])
		}
		d.Mean = sum / float64(to-from)
		out[n] = d
	}
	return out
}

func TestMeasure_randomUsage_agreesWithTwin(t *testing.T) {
	balanced, _ := recommend.BacktestProfile("balanced")
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		changes := Run(w, balanced)
		for _, sc := range Prepare(w, DefaultLearning).Measure(changes) {
			want := measureTwin(w, changes, sc.Container, sc.Resource)
			if len(sc.Days) != len(want) {
				t.Fatalf("got %d days, want %d", len(sc.Days), len(want))
			}
			for _, d := range sc.Days {
				e := want[d.Number]
				if d.Above != e.Above || d.Events != e.Events || d.Changes != e.Changes || d.Samples != e.Samples || d.P95 != e.P95 ||
					!near(d.Mean, e.Mean) || !near(d.Over, e.Over) || !near(d.Used, e.Used) {
					t.Fatalf("day %d of %s: got %+v, want %+v", d.Number, sc.Resource, d, e)
				}
			}
		}
	})
}

func TestRun_extremeUsage_requestsAreValidAndFiguresAreNumbers(t *testing.T) {
	for _, p := range recommend.BacktestProfiles() {
		rapid.Check(t, func(t *rapid.T) {
			w := &Workload{
				Key:  cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "cart"},
				Pods: []string{"cart-0"}, Containers: []string{"app"},
			}
			at := rapid.SampledFrom([]int64{1, start, 7_250_000_000}).Draw(t, "begin")
			for range rapid.IntRange(1, 80).Draw(t, "samples") {
				w.Samples = append(w.Samples, Sample{
					At:     at,
					CPU:    rapid.SampledFrom([]float64{0, 1e-320, 1e-9, 0.001, 0.2, 1, 500, 1e5}).Draw(t, "CPU"),
					Memory: rapid.SampledFrom([]float64{0, 1, 4096, 1e8, 1e12, 9.9e13, 1e14}).Draw(t, "memory"),
					Has:    cluster.Both,
				})
				at += rapid.SampledFrom([]int64{1, 59, 60, 300, 3600, 86_400, 9 * 86_400, 3650 * 86_400}).Draw(t, "step")
			}
			changes := Run(w, p)
			for _, c := range changes {
				if c.Request <= 0 || c.Request > 2e14 {
					t.Fatalf("%s: request for %[3]s is %[2]d", p.Name, c.Request, c.Resource)
				}
			}
			o := OutcomeOf(Prepare(w, DefaultLearning).Measure(changes), Prices{Core: 1, GiB: 1})
			for _, s := range []Summary{o.CPU, o.Memory} {
				for _, v := range []float64{s.MeanSlack, s.MedianSlack, s.AggregateSlack, s.FreeDays, s.Above, s.Events, s.Shortfall, s.Changes, s.Footprint, s.UsedMean, o.Money} {
					if math.IsNaN(v) || math.IsInf(v, 0) {
						t.Fatalf("%s: %+v", p.Name, o)
					}
				}
				if s.FreeDays < 0 || s.FreeDays > 1 || s.Shortfall < 0 || s.Shortfall > 1+1e-9 || s.MeanSlack > 1 || s.Footprint < 0 {
					t.Fatalf("%s: %+v", p.Name, o)
				}
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) }

func TestMeasure_knownChanges_figuresAreExact(t *testing.T) {
	w := steady(10, 1, 100*mib)
	last := &w.Samples[len(w.Samples)-1]
	last.Memory = 300 * mib
	last.CPU = 3
	changes := []Change{
		{At: start, Resource: cluster.CPU, Request: 2000},
		{At: start, Resource: cluster.Memory, Request: 200 * mib},
		{At: start + 9*86400, Resource: cluster.CPU, Request: 1000},
	}
	o := OutcomeOf(Prepare(w, DefaultLearning).Measure(changes), Prices{Core: 1, GiB: 10})
	if o.Memory.Days != 2 || o.Memory.FreeDays != 0.5 || o.Memory.Above != 0.5 || o.Memory.MeanSlack != 0.5 || o.Memory.Changes != 0 {
		t.Errorf("memory: %+v", o.Memory)
	}
	if o.CPU.MeanSlack != 0.25 || o.CPU.Changes != 0.5 || !near(o.CPU.Shortfall, 2.0/(2*288+2)) {
		t.Errorf("CPU: %+v", o.CPU)
	}
	if f := o.CPU.Footprint; math.Abs(f-1.5) > 0.01 {
		t.Errorf("footprint is %g cores, want 1.5", f)
	}
	if want := PerMonth * (o.CPU.Footprint + 10*200.0/1024); !near(o.Money, want) {
		t.Errorf("cost is %g, want %g", o.Money, want)
	}
}

// Two sizes, to see that time grows linearly.
func BenchmarkReplay(b *testing.B) {
	for _, days := range []int{10, 40} {
		w := steady(days, 0.1, 300*mib)
		for i := range w.Samples {
			w.Samples[i].Memory = float64(200+100*(i*i%7)) * mib
			w.Samples[i].CPU = 0.1 + 0.1*float64(i*i%11)
		}
		for _, p := range recommend.BacktestProfiles() {
			b.Run(fmt.Sprintf("%s/%dd", p.Name, days), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Run(w, p)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(w.Samples)), "ns/sample")
			})
		}
	}
}

// A pod whose first sample is later than the first one of the workload counts as started at its first sample. The profile
// busy-hours ignores its first five minutes.
func TestRun_laterPod_startsWithItsFirstSample(t *testing.T) {
	request := func(first int64) int64 {
		w := Workload{
			Key: cluster.Workload{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, Pods: []string{"web-1", "web-2"}, Containers: []string{"app"},
		}
		const began = 1_772_400_000
		add := func(pod int32, from int64) {
			for at := from; at < began+86400; at += 60 {
				cores := 0.2
				if pod == 1 && at < from+300 {
					cores = 4
				}
				w.Samples = append(w.Samples, Sample{At: at, CPU: cores, Pod: pod, Has: cluster.Of(cluster.CPU)})
			}
		}
		add(0, began)
		add(1, began+first)
		w.Sort()
		p, _ := recommend.Builtin("busy-hours")
		highest := int64(0)
		for _, change := range Run(&w, p) {
			highest = max(highest, change.Request)
		}
		return highest
	}
	if got := request(3600); got > 300 {
		t.Errorf("after an hour: %dm, want at most 300m", got)
	}
	if got := request(60); got < 4000 {
		t.Errorf("with the workload: %dm, want at least 4000m, as its start is not known", got)
	}
}
