// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package contention

import (
	"math"
	"strings"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
)

func advice(target, uncapped int64) []cluster.Advice {
	return []cluster.Advice{{Container: "app", Estimate: cluster.Estimate{Target: cluster.Amounts(target, 1)}, Uncapped: cluster.Amounts(uncapped, 1)}}
}

func TestAboveRequest_situation_decidesCauseAndRemedy(t *testing.T) {
	spare := map[string]NodeUse{"n1": {allocatable: 4000, requested: 3000, used: 1000}}
	busy := map[string]NodeUse{"n1": {allocatable: 4000, requested: 2000, used: 3000}}
	off := []cluster.ContainerPolicy{{Container: "app", Off: true}}
	memoryOnly := []cluster.ContainerPolicy{{Container: "*", ControlsSet: true, Controlled: cluster.Of(cluster.Memory)}}
	for name, c := range map[string]struct {
		cause    Reason
		advice   []cluster.Advice
		mode     cluster.Mode
		policies []cluster.ContainerPolicy
		nodes    map[string]NodeUse
		packs    bool
		limit    int64
		want     Reason
		text     string
	}{
		"starting":            {cause: Starting, advice: advice(900, 900), want: Starting, text: "set startupBoost"},
		"one replica":         {cause: OneReplica, advice: advice(900, 900), want: OneReplica, text: "in pod web-000. The median of its replicas is about 100m"},
		"to be applied":       {advice: advice(954, 954), nodes: spare, want: RequestTooLow, text: "about 910m of 200m in pod web-000. The recommendation is 950m, and the updater has not applied it to these pods. The reason of the condition Updating"},
		"mode Off":            {advice: advice(900, 900), mode: cluster.Off, nodes: spare, want: RequestTooLow, text: "updateMode Off does not apply it"},
		"mode Initial":        {advice: advice(900, 900), mode: cluster.Initial, want: RequestTooLow, text: "updateMode Initial applies it only to new pods"},
		"capped":              {advice: advice(150, 900), nodes: spare, want: RequestTooLow, text: "limited to 150m by maxAllowed"},
		"policy Off":          {policies: off, want: RequestTooLow, text: "mode Off, so podfit does not size it"},
		"memory only":         {advice: []cluster.Advice{{Container: "app"}}, policies: memoryOnly, want: RequestTooLow, text: "add cpu to controlledResources"},
		"policy Off, spare":   {policies: off, nodes: spare, want: NodeHasSpare, text: "No other pod is harmed"},
		"no recommendation":   {want: RequestTooLow, text: "There is no recommendation for its CPU yet."},
		"recommended, spare":  {advice: advice(200, 200), nodes: spare, want: NodeHasSpare, text: "not above the request; it rises if the usage lasts"},
		"recommended, full":   {advice: advice(200, 200), want: RequestTooLow, text: "not above the request"},
		"at the limit, spare": {advice: advice(200, 200), nodes: spare, limit: 950, want: RequestTooLow},
		"busy":                {nodes: busy, want: RequestTooLow, text: "in pod web-000. There is no"},
		"packed, busy":        {nodes: busy, packs: true, want: RequestTooLow, text: "While all pods of its node need CPU, it gets about 510m less than that. There is no"}, // 912 - 2 * 200
		"packed, spare":       {advice: advice(900, 900), nodes: spare, packs: true, want: RequestTooLow, text: "in pod web-000. The recommendation"},
		"below its limit":     {advice: advice(200, 200), nodes: spare, limit: 1500, want: NodeHasSpare},
	} {
		t.Run(name, func(t *testing.T) {
			p := replicas(1, 200)[0]
			if c.limit > 0 {
				p.Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, c.limit)
			}
			e := Excess{Container: "app", Pods: []*cluster.Pod{p}, Replicas: 3, Worst: p, Usage: 912, Request: 200, Median: 100, Cause: c.cause}
			a := &cluster.Autoscaler{Mode: c.mode, Policies: c.policies}
			got, _ := AboveRequest([]Excess{e}, &Situation{Autoscaler: a, Advice: c.advice, Packs: c.packs}, c.nodes)
			if got.Reason != c.want || !strings.Contains(got.Message, c.text) {
				t.Errorf("finding %+v, want %s, %q", got, c.want, c.text)
			}
		})
	}
}

func TestAboveRequest_severalContainers_haveTheMostUrgentReason(t *testing.T) {
	p := replicas(1, 200)[0]
	one := func(name string, cause Reason) Excess {
		return Excess{Container: name, Pods: []*cluster.Pod{p, p}, Worst: p, Usage: 900, Request: 200, Cause: cause}
	}
	s := &Situation{Autoscaler: new(cluster.Autoscaler), Governs: true, Advice: advice(900, 900)}
	got, _ := AboveRequest([]Excess{one("agent", Starting), one("app", "")}, s, nil)
	if got.Reason != RequestTooLow || !strings.HasPrefix(got.Message, "Container app has") || !strings.Contains(got.Message, "in several pods, such as web-000. The recommendation") {
		t.Errorf("finding %+v", got)
	}
	if got, _ := AboveRequest(nil, s, nil); got != (Finding{}) {
		t.Errorf("finding %+v without an excess", got)
	}
}

// Of 14 containers, those that would lack most CPU are first, and the metric has ten.
func TestAboveRequest_packedOnABusyNode_namesTheContainersThatLackMost(t *testing.T) {
	var all []Excess
	for i := range 14 {
		p := replicas(1, 200)[0]
		p.Containers[0].Name = string(rune('a' + i))
		all = append(all, Excess{Container: p.Containers[0].Name, Pods: []*cluster.Pod{p}, Worst: p, Usage: int64(300 + 100*i), Request: 200})
	}
	s := &Situation{Autoscaler: &cluster.Autoscaler{Target: cluster.Workload{Name: "web"}}, Packs: true}
	got, lacks := AboveRequest(all, s, map[string]NodeUse{"n1": {allocatable: 4000, requested: 2000, used: 3000}})
	if !strings.HasPrefix(got.Message, "Container n has used more CPU than its request for at least 30 minutes: about 1600m of 200m in pod web-000. "+
		"While all pods of its node need CPU, it gets about 1200m less than that. ") || !strings.Contains(got.Message, "Container l ") {
		t.Errorf("finding %+v", got)
	}
	most := MostLacking(lacks)
	if len(lacks) != 12 || len(most) != 10 || most[0] != (Lack{s.Autoscaler.Target, "n", 1200}) || most[9].Millicores != 300 {
		t.Errorf("%d containers lack CPU, most of them: %+v", len(lacks), most)
	}
}

// The reason is about a container that the message describes, and the others may have another cause.
func TestAboveRequest_manyContainers_messageDescribesTheMostUrgent(t *testing.T) {
	var all []Excess
	for _, name := range []string{"a", "b", "c", "z"} {
		p := replicas(1, 200)[0]
		p.Containers[0].Name = name
		e := Excess{Container: name, Pods: []*cluster.Pod{p}, Worst: p, Usage: 900, Request: 200, Cause: Starting}
		if name == "z" {
			e.Cause = ""
		}
		all = append(all, e)
	}
	got, _ := AboveRequest(all, &Situation{Autoscaler: new(cluster.Autoscaler)}, nil)
	if got.Reason != RequestTooLow || !strings.HasPrefix(got.Message, "Container z has") || !strings.Contains(got.Message, "Container b") ||
		strings.Contains(got.Message, "Container c ") || !strings.HasSuffix(got.Message, " Other containers have this condition, too.") {
		t.Errorf("finding %+v", got)
	}
}

func TestUses_usageOfNodes_isComparedWithTheirSize(t *testing.T) {
	nodes := []cluster.Node{
		{Name: "idle", Allocatable: cluster.Amounts(4000, 0)}, {Name: "busy", Allocatable: cluster.Amounts(4000, 0)},
		{Name: "unknown", Allocatable: cluster.Amounts(4000, 0)}, {Name: "reserved", Allocatable: cluster.Amounts(4000, 0)}, {Name: "no size"},
	}
	pods := replicas(7, 1000)
	for i, node := range []string{"idle", "busy", "busy", "unknown", "reserved", "reserved", "no size"} {
		pods[i].Node = node
	}
	pods[5].Containers[0].Requests.CPU = 1500 // not measured
	used := map[cluster.Key]int64{pods[0].Key: 1999, pods[1].Key: 1000, pods[2].Key: 1000, pods[4].Key: 500, pods[6].Key: 1}
	for name, use := range Uses(nodes, pods, used) {
		if use.hasSpare() != (name == "idle") {
			t.Errorf("node %s has spare CPU: %v", name, use.hasSpare())
		}
	}
	if got := Uses(nodes, pods, used)["reserved"]; got != (NodeUse{allocatable: 4000, requested: 2500, used: 2000}) {
		t.Errorf("use of a node %+v", got)
	}
}

func TestUnrequested_pods_onlyLastingOnesWithoutAnyRequest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*cluster.Pod)
		want   int
	}{
		"no request":            {func(*cluster.Pod) {}, 3},
		"only memory":           {func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Resources{}.Set(cluster.Memory, 1) }, 3},
		"a request":             {func(p *cluster.Pod) { p.Containers[0].Requests = cluster.Amounts(1, 0) }, 0},
		"a request for the pod": {func(p *cluster.Pod) { p.PodLevel = &cluster.PodResources{Requests: cluster.Amounts(1, 0)} }, 0},
		"started recently":      {func(p *cluster.Pod) { p.Started = start.Add(-59 * time.Minute) }, 0},
		"started in the future": {func(p *cluster.Pod) { p.Started = start.Add(time.Hour) }, 0},
		"pending":               {func(p *cluster.Pod) { p.Phase = cluster.Pending }, 0},
		"init container":        {func(p *cluster.Pod) { p.Containers[0].Role = cluster.Init }, 0},
		"sidecar":               {func(p *cluster.Pod) { p.Containers[0].Role = cluster.Sidecar }, 3},
		"resize is in progress": {func(p *cluster.Pod) { p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(5, 0)} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pods := replicas(3, 0)
			for _, p := range pods {
				c.change(p)
			}
			n := 0
			for _, g := range Unrequested(pods, start) {
				n += g.Pods
			}
			if n != c.want {
				t.Errorf("%d containers without a request, want %d", n, c.want)
			}
		})
	}
}

func TestWithoutRequest_policy_decidesReasonAndRemedy(t *testing.T) {
	missing := Unrequested(replicas(3, 0), start)
	for name, c := range map[string]struct {
		policy *cluster.ContainerPolicy
		mode   cluster.Mode
		want   Reason
		text   string
	}{
		"policy Off":  {&cluster.ContainerPolicy{Container: "app", Off: true}, cluster.Recreate, NotControlled, "Set the CPU request in the pod template, or remove mode Off."},
		"memory only": {&cluster.ContainerPolicy{Container: "app", ControlsSet: true}, cluster.Off, NotControlled, "add cpu to controlledResources"},
		"mode Off":    {&cluster.ContainerPolicy{Container: "app"}, cluster.Off, NotApplied, "The recommendation is 120m, and updateMode Off does not apply it."},
		"not yet":     {&cluster.ContainerPolicy{Container: "app"}, cluster.Recreate, NotApplied, "in several pods, such as web-000."},
	} {
		a := &cluster.Autoscaler{Mode: c.mode, Policies: []cluster.ContainerPolicy{*c.policy}}
		got := WithoutRequest(missing, &Situation{Autoscaler: a, Advice: advice(123, 123), Governs: true})
		if got.Reason != c.want || !strings.Contains(got.Message, c.text) {
			t.Errorf("%s: finding %+v, want %s, %q", name, got, c.want, c.text)
		}
	}
}

func TestMisread_jvm_onlyInTheRangesAndIfNothingElseDecides(t *testing.T) {
	for name, c := range map[string]struct {
		request int64
		change  func(*cluster.Pod)
		want    bool
	}{
		"1000m":            {1000, nil, true},
		"989m":             {989, nil, true},
		"988m":             {988, nil, false},
		"1001m":            {1001, nil, false},
		"2550m":            {2550, nil, true},
		"no request":       {0, nil, false},
		"a CPU limit":      {1000, func(p *cluster.Pod) { p.Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, 2000) }, false},
		"a limit of a pod": {1000, func(p *cluster.Pod) { p.PodLevel = &cluster.PodResources{Limits: cluster.Amounts(2000, 0)} }, false},
		"a memory limit":   {1000, func(p *cluster.Pod) { p.Containers[0].Limits = cluster.Resources{}.Set(cluster.Memory, 2000) }, true},
		"the flag is set":  {1000, func(p *cluster.Pod) { p.Runtimes.List[0].CPUCountSet = true }, false},
		"Go":               {1000, func(p *cluster.Pod) { p.Runtimes.List[0].Kind = cluster.GoRuntime }, false},
		"not detected":     {1000, func(p *cluster.Pod) { p.Runtimes = nil }, false},
		"deleting":         {1000, func(p *cluster.Pod) { p.Deleting = true }, false},
		"resized out":      {1000, func(p *cluster.Pod) { p.Containers[0].Applied = &cluster.Applied{Requests: cluster.Amounts(1001, 0)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := replicas(1, c.request)[0]
			p.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}}}
			if c.change != nil {
				c.change(p)
			}
			got := AllCores(Misread([]*cluster.Pod{p}), false)
			if (got.Reason == RequestInBand) != c.want || c.want && !strings.Contains(got.Message, "-XX:ActiveProcessorCount") {
				t.Errorf("finding %+v, want one: %t", got, c.want)
			}
		})
	}
	p := replicas(1, 1000)[0]
	p.Runtimes = &cluster.Runtimes{List: []cluster.Runtime{{Kind: cluster.JVM}}}
	if got := AllCores(Misread([]*cluster.Pod{p}), true); !strings.Contains(got.Message, "at the next update of the pod") {
		t.Errorf("finding %+v with guards", got)
	}
}

func TestThrottled_measurement_namesTheCause(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		share, p95, mean, all float64
		limit                 int64
		kernel                string
		lasting               bool
		want                  Reason
	}{
		"at the limit":               {share: 0.6, p95: 0.96, mean: 0.9, all: 18000, limit: 1000, want: AtLimit},
		"rarely throttled":           {share: 0.24, p95: 0.99, mean: 0.9, all: 18000, limit: 1000},
		"rarely, but before":         {share: 0.24, p95: 0.91, mean: 0.9, all: 18000, limit: 1000, lasting: true, want: AtLimit},
		"has ended":                  {share: 0.19, p95: 0.91, mean: 0.9, all: 18000, limit: 1000, lasting: true},
		"between the causes":         {share: 0.6, p95: 0.9, mean: 0.6, all: 18000, limit: 1000},
		"an old kernel":              {share: 0.6, p95: 0.5, mean: 0.3, all: 18000, limit: 1000, kernel: "4.15.0-54-generic", want: KernelTooOld},
		"a new kernel":               {share: 0.6, p95: 0.5, mean: 0.3, all: 18000, limit: 1000, kernel: "6.8.0-45-generic", want: BurstsOfThreads},
		"an unknown kernel":          {share: 0.6, p95: 0.5, mean: 0.3, all: 18000, limit: 1000, want: BurstsOfThreads},
		"an old kernel at the limit": {share: 0.6, p95: 0.96, mean: 0.9, all: 18000, limit: 1000, kernel: "3.10.0", want: AtLimit},
		"few periods":                {share: 0.9, p95: 0.1, mean: 0.1, all: 900, limit: 1000},
		"no limit":                   {share: 0.9, p95: 0.1, mean: 0.1, all: 18000},
		"no periods":                 {share: 0.9, p95: 0.1, mean: 0.1, limit: 1000},
		"unknown periods":            {share: 0.9, p95: 0.1, mean: 0.1, all: nan, limit: 1000},
		"infinite periods":           {share: 0.9, p95: 0.1, mean: 0.1, all: inf, limit: 1000},
		"unknown share":              {share: nan, p95: 0.1, mean: 0.1, all: 18000, limit: 1000},
		"unknown usage":              {share: 0.9, p95: nan, mean: nan, all: 18000, limit: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			p := replicas(1, 100)[0]
			p.Containers[0].Limits = cluster.Resources{}.Set(cluster.CPU, c.limit)
			measured := []Throttling{
				{Pod: p.Name, Container: "app", Throttled: c.share * c.all, All: c.all, P95: c.p95, Mean: c.mean},
				{Pod: "gone", Container: "app", Throttled: 9000, All: 18000, P95: 9}, {Pod: p.Name, Container: "unknown", Throttled: 9000, All: 18000, P95: 9},
			}
			got := Throttled(measured, []*cluster.Pod{p}, map[string]string{"n1": c.kernel}, c.lasting)
			if got.Reason != c.want || (got.Message == "") != (c.want == "") {
				t.Errorf("finding %+v, want %q", got, c.want)
			}
			if c.want == KernelTooOld && !strings.Contains(got.Message, "kernel 4.15.0-54-generic") {
				t.Errorf("message %s", got.Message)
			}
		})
	}
}

func TestThrottled_severalCauses_haveTheReasonAtLimit(t *testing.T) {
	pods := replicas(3, 100)
	for _, p := range pods {
		p.Containers[0].Limits = cluster.Amounts(1000, 0)
	}
	got := Throttled([]Throttling{
		{Pod: "web-000", Container: "app", Throttled: 9000, All: 18000, P95: 0.2, Mean: 0.1},
		{Pod: "web-001", Container: "app", Throttled: 9000, All: 18000, P95: 1, Mean: 0.9}, {Pod: "web-002", Container: "app", Throttled: 9000, All: 18000, P95: 1, Mean: 0.9},
	}, pods, nil, false)
	want := "The CPU of container app is throttled in about 50 % of its CPU periods in several pods, such as web-001, with a limit of 1. Its usage is at the limit."
	if got.Reason != AtLimit || !strings.HasPrefix(got.Message, want) || !strings.Contains(got.Message, "in pod web-000, with") {
		t.Errorf("finding %+v", got)
	}
}

func TestLimited_pods_onlyThoseWithACPULimit(t *testing.T) {
	pods := replicas(MostPods+20, 100)
	if q, ok := Limited("shop", pods); ok {
		t.Errorf("query %+v without limits", q)
	}
	for _, p := range pods[10:] {
		p.Containers[0].Limits = cluster.Amounts(1000, 0)
	}
	pods[10].Deleting = true
	if q, ok := Limited("shop", pods); !ok || len(q.Pods) != MostPods || q.Pods[0] != "web-011" || q.Namespace != "shop" {
		t.Errorf("query %+v", q)
	}
}

func TestHasThrottlingDefect_versions_areThoseWithoutTheFix(t *testing.T) {
	for version, want := range map[string]bool{
		"": false, "unknown": false, "5": false, "5.4.0": false, "5.15.0-1051-aws": false, "6.1.0": false, "10.0": false,
		"5.3.8": true, "5.3.9": false, "5.3.0-23-generic": true, "5.3.0-24-generic": false, "5.0.0": true, "4.20.1": true,
		"4.19.83": true, "4.19.84-coreos": false, "4.14.153": true, "4.14.154-128.181.amzn2.x86_64": false, "4.15.0-66-generic": true, "4.15.0-213-generic": false,
		"4.18.0-147.1.1.el8_1.x86_64": true, "4.18.0-147.2.1.el8_1.x86_64": false, "4.18.0-553.el8_10.x86_64": false, "4.18.0": true,
		"3.10.0-1062.4.3.el7.x86_64": true, "3.10.0-1160.49.1.el7.x86_64": false, "3.10.0-1160": true, "4.9.0-13-amd64": true,
		"99999999999999999999.1": false, "4.99999999999999999999": false,
	} {
		if got := hasThrottlingDefect(version); got != want {
			t.Errorf("kernel %q has the defect: %t, want %t", version, got, want)
		}
	}
}

func TestCPU_amounts_haveTwoDigits(t *testing.T) {
	for in, want := range map[int64]string{-1: "0", 0: "0", 7: "7m", 99: "99m", 104: "100m", 912: "910m", 1249: "1200m", 9951: "10", math.MaxInt64: "9200000000000000"} {
		if got := cpu(in); got != want {
			t.Errorf("cpu(%d) = %s, want %s", in, got, want)
		}
	}
}
