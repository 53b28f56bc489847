// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package explanation

import (
	"fmt"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/rationale"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// WHY and the runs are those of the init container "migrate" of a Deployment, which took a minute each.
func TestExplain_initContainerHasRuns_areShownNewestFirstAndSizeIt(t *testing.T) {
	store := usage.NewStore(usage.DefaultConfig())
	for i := range 3 {
		p := podOf(fmt.Sprint("cart-", i))
		p.Containers = append(p.Containers, cluster.Container{Name: "migrate", Role: cluster.Init})
		p.Top = cart
		at := noon.Add(time.Duration(i-5) * time.Hour)
		store.Tick(at)
		store.Track(p)
		for _, c := range []string{"app", "migrate"} {
			store.Observe(usage.Sample{Pod: p.Key, Container: c, At: at, CPU: 0.1, Memory: 1e8 * float64(i+1), Has: cluster.Both})
		}
	}
	profile, _ := recommend.Builtin("default")
	pod := podOf("cart-9")
	pod.Containers[0].Requests = cluster.Amounts(500, 1e9)
	pod.Containers = append(pod.Containers, cluster.Container{Name: "migrate", Role: cluster.Init, Requests: cluster.Amounts(10, 1e6)})
	sizing := &rationale.Sizing{Now: noon, Autoscaler: &cluster.Autoscaler{Mode: cluster.Initial}, Histories: store.All(cart), Profile: profile, Pod: pod}
	runs := storedRuns(&Input{Now: noon, Sizing: sizing})
	if len(runs) != 3 || runs[0].Container != "migrate" || runs[0].Memory != 3e8 || runs[2].Memory != 1e8 {
		t.Errorf("runs %+v, want three, the newest first", runs)
	}
	if got := storedRuns(&Input{Now: noon, Sizing: sizing, Lack: "checkpoints"}); got != nil {
		t.Errorf("runs %+v although the checkpoints were not read", got)
	}
	why := rationale.WhyOf(sizing)
	last := &why[len(why)-1]
	if last.Container != "migrate" || last.Resource != cluster.Memory || last.Range.Target != 345e6 || last.Size.Request != 345e6 {
		t.Fatalf("WHY ends with %+v, want the memory of the init container, also in new pods", last)
	}
	if text := last.Lines()[0].What; text != "by run, highest of 3 runs" {
		t.Errorf("the first step is %q", text)
	}
}
