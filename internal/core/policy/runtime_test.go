// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"podfit.dev/podfit/internal/core/admissible"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/fleet"
	"podfit.dev/podfit/internal/core/runtimeguard"
)

// jvmPod returns a pod with one container, whose runtime has the given properties.
func jvmPod(c cluster.Container, r cluster.Runtime) *cluster.Pod {
	if r.Kind == cluster.UnknownRuntime {
		r.Kind = cluster.JVM
	}
	r.Evidence = cluster.ByCommand
	p := podOf(c)
	p.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{r}}
	return p
}

var allGuards = cluster.RuntimeGuards{CPU: true, Memory: true}

func TestFit_cpuGuard_keepsRequestsOutOfTheRangesThatJVMsMisread(t *testing.T) {
	app := container("app", cpu(500), cluster.Resources{})
	scaled := &cluster.HorizontalAutoscaler{Utilization: []cluster.UtilizationTarget{{Resource: cluster.CPU, Percent: 70}}}
	for name, c := range map[string]struct {
		target  int64
		pod     cluster.Container
		runtime cluster.Runtime
		guards  cluster.RuntimeGuards
		change  func(*cluster.Autoscaler, *Limits)
		want    int64
		note    string
	}{
		"below a range":             {target: 988, want: 988},
		"first of a range":          {target: 989, want: 1001, note: "cpu raised above a range that a JVM misreads"},
		"one core":                  {target: 1000, want: 1001, note: "cpu raised above a range that a JVM misreads"},
		"above a range":             {target: 1001, want: 1001},
		"the linear conversion":     {target: 2550, want: 2563, note: "cpu raised above a range that a JVM misreads"},
		"no guard":                  {target: 1000, guards: cluster.RuntimeGuards{Memory: true}, want: 1000},
		"another runtime":           {target: 1000, runtime: cluster.Runtime{Kind: cluster.GoRuntime}, want: 1000},
		"the number is set":         {target: 1000, runtime: cluster.Runtime{CPUCountSet: true}, want: 1000},
		"the webhook sets it":       {target: 1000, runtime: cluster.Runtime{VariableOpen: true}, guards: cluster.RuntimeGuards{CPU: true, InjectCPUCount: true}, want: 1000},
		"the webhook may not set":   {target: 1000, guards: cluster.RuntimeGuards{CPU: true, InjectCPUCount: true}, want: 1001, note: "cpu raised above a range that a JVM misreads"},
		"a CPU limit":               {target: 1000, pod: container("app", cpu(500), cpu(2000)), want: 1000},
		"a default CPU limit":       {target: 1000, change: func(_ *cluster.Autoscaler, l *Limits) { l.Range.Container.Default = cpu(4000) }, want: 1000},
		"whole cores":               {target: 1000, change: func(a *cluster.Autoscaler, _ *Limits) { a.IntegerCPU = []string{"app"} }, want: 1000},
		"an HPA with a scale point": {target: 1000, change: func(a *cluster.Autoscaler, _ *Limits) { a.Horizontal = []*cluster.HorizontalAutoscaler{scaled} }, want: 0},
		"maxAllowed": {
			target: 1000, change: func(a *cluster.Autoscaler, _ *Limits) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", MaxAllowed: cpu(1000)}}
			}, want: 988, note: "cpu lowered below a range that a JVM misreads",
		},
		"minAllowed and maxAllowed": {
			target: 1000, change: func(a *cluster.Autoscaler, _ *Limits) {
				a.Policies = []cluster.ContainerPolicy{{Container: "app", MinAllowed: cpu(1000), MaxAllowed: cpu(1000)}}
			}, want: 1000,
		},
		"a LimitRange": {
			target: 1000, change: func(_ *cluster.Autoscaler, l *Limits) { l.Range.Container.Min = cpu(1000) },
			want: 1001, note: "cpu raised above a range that a JVM misreads",
		},
		"a node": { // the pod is scaled down to 995m, which is in the range
			target: 2000, change: func(a *cluster.Autoscaler, l *Limits) {
				a.Advice[0].Lower = cpu(100)
				l.Nodes = &fleet.Sizes{Largest: []cluster.Resources{cluster.Amounts(995, 1<<40)}}
			}, want: 988, note: "cpu lowered below a range that a JVM misreads",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pod.Name == "" {
				c.pod = app
			}
			a := recommend(exactly("app", cpu(c.target)))
			a.Guards = c.guards
			if a.Guards == (cluster.RuntimeGuards{}) {
				a.Guards = allGuards
			}
			var l Limits
			if c.change != nil {
				c.change(a, &l)
			}
			fits := Fit(a, l, jvmPod(c.pod, c.runtime))
			if c.want == 0 {
				if len(fits) > 0 {
					t.Errorf("%+v, want no change", fits)
				}
				return
			}
			f := fits[0]
			if f.Requests.CPU != c.want || f.Estimate.Target.CPU != c.want || f.Estimate.Lower.CPU > c.want || f.Estimate.Upper.CPU < c.want {
				t.Errorf("requests %v, estimate %v, want %dm", f.Requests, f.Estimate, c.want)
			}
			if c.note != "" && !slices.ContainsFunc(f.Notes, func(n Note) bool { return n.String() == c.note }) {
				t.Errorf("notes %v, want %q", f.Notes, c.note)
			}
		})
	}
}

func TestFit_memoryGuard_keepsTheHeapOfAJVM(t *testing.T) {
	app := container("app", memory(2048*mi), cluster.Resources{})
	xmx := cluster.Runtime{HeapBytes: 1024 * mi}
	for name, c := range map[string]struct {
		target  int64
		pod     cluster.Container
		runtime cluster.Runtime
		guards  cluster.RuntimeGuards
		policy  cluster.ContainerPolicy
		want    int64
		raised  bool
	}{
		"above the heap": {target: 1500 * mi, runtime: xmx, want: 1500 * mi},
		"below the heap": {target: 300 * mi, runtime: xmx, want: 1024 * mi, raised: true},
		"no guard":       {target: 300 * mi, runtime: xmx, guards: cluster.RuntimeGuards{CPU: true}, want: 300 * mi},
		"no heap set":    {target: 300 * mi, want: 300 * mi},
		"maxAllowed has precedence": {
			target: 300 * mi, runtime: xmx, policy: cluster.ContainerPolicy{Container: "app", MaxAllowed: memory(512 * mi)}, want: 512 * mi, raised: true,
		},
		"a limit that is kept has precedence": {
			target: 300 * mi, runtime: xmx, pod: container("app", memory(700*mi), memory(800*mi)),
			policy: cluster.ContainerPolicy{Container: "app", RequestsOnly: true}, want: 800 * mi, raised: true,
		},
		"percent of a limit that is kept": {
			target: 300 * mi, runtime: cluster.Runtime{HeapPercent: 75}, pod: container("app", memory(700*mi), memory(800*mi)),
			policy: cluster.ContainerPolicy{Container: "app", RequestsOnly: true}, want: 600 * mi, raised: true,
		},
		"percent of a limit that follows the request": {
			target: 300 * mi, runtime: cluster.Runtime{HeapPercent: 75}, pod: container("app", memory(700*mi), memory(800*mi)), want: 300 * mi,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.pod.Name == "" {
				c.pod = app
			}
			a := recommend(exactly("app", memory(c.target)))
			a.Guards = c.guards
			if a.Guards == (cluster.RuntimeGuards{}) {
				a.Guards = allGuards
			}
			if c.policy.Container != "" {
				a.Policies = []cluster.ContainerPolicy{c.policy}
			}
			f := Fit(a, Limits{}, jvmPod(c.pod, c.runtime))[0]
			if f.Requests.Memory != c.want || f.Estimate.Target.Memory != c.want || f.Estimate.Upper.Memory < c.want || f.Estimate.Lower.Memory > c.want {
				t.Errorf("requests %v, estimate %v, want %d", f.Requests, f.Estimate, c.want)
			}
			if got := slices.Contains(f.Notes, Note{Resource: cluster.Memory, Kind: admissible.RaisedToHeap}); got != c.raised {
				t.Errorf("notes %v, want a note: %t", f.Notes, c.raised)
			}
		})
	}
}

// A pod that is too large for its node is scaled down, but not below the heap.
func TestFit_memoryGuardAndSmallNode_keepsTheHeap(t *testing.T) {
	a := recommend(advice("app", of(100, 100*mi), of(4000, 300*mi), of(4000, 300*mi)))
	a.Guards = allGuards
	l := Limits{Nodes: &fleet.Sizes{Largest: []cluster.Resources{of(2000, 2048*mi)}}}
	got := Fit(a, l, jvmPod(container("app", of(500, 2048*mi), cluster.Resources{}), cluster.Runtime{HeapBytes: 1024 * mi}))[0].Requests
	if got != of(2000, 1024*mi) {
		t.Errorf("%v, want 2 cores and 1Gi", got)
	}
}

func TestFitBounds_guards_areExplained(t *testing.T) {
	a := recommend(exactly("app", of(1000, 300*mi)))
	a.Guards = allGuards
	_, looked := FitBounds(a, Limits{}, jvmPod(container("app", of(500, 2048*mi), cluster.Resources{}), cluster.Runtime{HeapBytes: 1024 * mi}))
	var got []Bound
	for _, b := range looked[0] {
		if b.Kind == JVMHeap || b.Kind == JVMShare {
			got = append(got, b)
		}
	}
	want := []Bound{
		{Resource: cluster.Memory, Kind: JVMHeap, Amount: 1024 * mi, Before: 300 * mi, After: 1024 * mi},
		{Resource: cluster.CPU, Kind: JVMShare, Before: 1000, After: 1001},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Without guards, what is known about runtimes changes nothing. With the guard for CPU, no request of a JVM is in a range unless a bound
// requires it, and none changes by more than the range.
func TestFit_randomJVM_changesOnlyWhatIsGuarded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.OneOf(rapid.Int64Range(1, 64_000), rapid.Int64Range(980, 1010), rapid.Int64Range(2530, 2570))
		target := near.Draw(t, "target")
		pod := jvmPod(container("app", of(500, mi), cluster.Resources{}), cluster.Runtime{HeapBytes: rapid.Int64Range(0, 4*mi).Draw(t, "heap")})
		a := recommend(exactly("app", of(target, mi)))
		bare := *pod
		bare.Runtimes = nil
		want := Fit(a, Limits{}, &bare)
		if diff := cmp.Diff(want, Fit(a, Limits{}, pod)); diff != "" {
			t.Fatalf("without guards (-want +got):\n%s", diff)
		}
		a.Guards = allGuards
		if diff := cmp.Diff(want, Fit(a, Limits{}, &bare)); diff != "" {
			t.Fatalf("without a runtime (-want +got):\n%s", diff)
		}
		got := Fit(a, Limits{}, pod)[0].Requests
		band, inBand := runtimeguard.Band(target)
		switch _, still := runtimeguard.Band(got.CPU); {
		case still, !inBand && got.CPU != target, inBand && got.CPU != band.To+1:
			t.Fatalf("a target of %dm became %dm", target, got.CPU)
		}
	})
}

func TestVariables_optIn_setsTheNumberForTheRequest(t *testing.T) {
	app := container("app", cpu(2500), cluster.Resources{})
	open := func(kind cluster.RuntimeKind) cluster.Runtime { return cluster.Runtime{Kind: kind, VariableOpen: true} }
	fits := []Fitted{{Container: "app", Requests: cpu(1001)}}
	heap := func(a *cluster.Autoscaler, _ *Limits) { a.Guards.InjectHeapPercent = 60 }
	for name, c := range map[string]struct {
		pod     cluster.Container
		runtime cluster.Runtime
		fits    []Fitted
		change  func(*cluster.Autoscaler, *Limits)
		want    []Variable
	}{
		"a JVM":            {app, open(cluster.JVM), fits, nil, []Variable{{"app", "JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=2"}}},
		"Go":               {app, open(cluster.GoRuntime), fits, nil, []Variable{{"app", "GOMAXPROCS", "2"}}},
		".NET":             {app, open(cluster.DotNet), fits, nil, []Variable{{"app", "DOTNET_PROCESSOR_COUNT", "2"}}},
		"its own request":  {app, open(cluster.GoRuntime), nil, nil, []Variable{{"app", "GOMAXPROCS", "3"}}},
		"a fit for memory": {app, open(cluster.GoRuntime), []Fitted{{Container: "app", Requests: memory(mi)}}, nil, []Variable{{"app", "GOMAXPROCS", "3"}}},
		"no opt-in":        {app, open(cluster.JVM), fits, func(a *cluster.Autoscaler, _ *Limits) { a.Guards = allGuards }, nil},
		"a number is set":  {app, cluster.Runtime{Kind: cluster.JVM, VariableOpen: true, CPUCountSet: true}, fits, nil, nil},
		"a heap":           {container("app", cpu(2500), memory(mi)), open(cluster.JVM), fits, heap, []Variable{{"app", "JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=2 -XX:MaxRAMPercentage=60.0"}}},
		"only a heap":      {container("app", cpu(500), cluster.Amounts(500, mi)), open(cluster.JVM), fits, heap, []Variable{{"app", "JAVA_TOOL_OPTIONS", "-XX:MaxRAMPercentage=60.0"}}},
		"a heap of a default": {container("app", cluster.Resources{}, cluster.Resources{}), open(cluster.JVM), nil, func(a *cluster.Autoscaler, l *Limits) {
			heap(a, l)
			l.Range.Container.Default = memory(mi)
		}, []Variable{{"app", "JAVA_TOOL_OPTIONS", "-XX:MaxRAMPercentage=60.0"}}},
		"a heap without a limit": {container("app", cluster.Resources{}, cluster.Resources{}), open(cluster.JVM), nil, heap, nil},
		"a heap in bytes":        {container("app", cluster.Resources{}, memory(mi)), cluster.Runtime{Kind: cluster.JVM, VariableOpen: true, HeapBytes: mi}, nil, heap, nil},
		"a heap in percent":      {container("app", cluster.Resources{}, memory(mi)), cluster.Runtime{Kind: cluster.JVM, VariableOpen: true, HeapPercent: 50}, nil, heap, nil},
		"a heap of Go":           {container("app", cluster.Resources{}, memory(mi)), open(cluster.GoRuntime), nil, heap, nil},
		"not open":               {app, cluster.Runtime{Kind: cluster.JVM}, fits, nil, nil},
		"no request":             {container("app", cluster.Resources{}, cluster.Resources{}), open(cluster.JVM), nil, nil, nil},
		"a CPU limit":            {container("app", cpu(500), cpu(500)), open(cluster.JVM), fits, nil, nil},
		"a default CPU limit":    {app, open(cluster.JVM), fits, func(_ *cluster.Autoscaler, l *Limits) { l.Range.Container.Default = cpu(1) }, nil},
		"policy Off": {app, open(cluster.JVM), nil, func(a *cluster.Autoscaler, _ *Limits) {
			a.Policies = []cluster.ContainerPolicy{{Container: "*", Off: true}}
		}, nil},
		"a container of another": {app, open(cluster.JVM), []Fitted{{Container: "other", Requests: cpu(9000)}}, nil, []Variable{{"app", "JAVA_TOOL_OPTIONS", "-XX:ActiveProcessorCount=3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := recommend()
			a.Guards.InjectCPUCount = true
			var l Limits
			if c.change != nil {
				c.change(a, &l)
			}
			if diff := cmp.Diff(c.want, Variables(a, l, jvmPod(c.pod, c.runtime), c.fits)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithVariables_texts_nameVariableAndContainer(t *testing.T) {
	a := recommend()
	added := []Variable{{"app", "GOMAXPROCS", "2"}, {"log", "GOMAXPROCS", "1"}}
	for text, want := range map[string]string{
		"":     "Environment set by cart: GOMAXPROCS of container app, GOMAXPROCS of container log",
		"text": "text; environment set: GOMAXPROCS of container app, GOMAXPROCS of container log",
	} {
		if got := WithVariables(a, text, added); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := WithVariables(a, "text", nil); got != "text" {
		t.Errorf("%q without variables", got)
	}
}
