// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/recommend"
	"podfit.dev/podfit/internal/core/usage"
)

// The greatest amounts that may come out of anything stored: no machine has a thousandth of them.
const (
	mostMillicores = 1e10
	mostBytes      = 1e16
)

// restored is a profile's life that begins with what somebody stored.
type restored struct {
	profile recommend.Profile
	a       *cluster.Autoscaler
	book    *usage.Store
	now     time.Time
}

func beginWith(p recommend.Profile, checkpoint, history []byte) *restored {
	r := &restored{profile: p, now: time.Date(2026, 3, 20, 12, 0, 0, 0, time.UTC)}
	r.a = &cluster.Autoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, Target: deployment("web")}
	r.book = usage.NewStore(usage.DefaultConfig())
	r.book.Tick(r.now)
	r.book.Configure(r.a.Target, nil)
	if p.Extend != nil {
		r.book.Extend(r.a.Target, p.Extend)
	}
	var remembered []usage.History
	var h historyObject
	if json.Unmarshal(history, &h) == nil {
		remembered, _ = h.histories()
	}
	var o checkpointObject
	if json.Unmarshal(checkpoint, &o) == nil {
		if c, err := o.checkpoint(); err == nil {
			if i := slices.IndexFunc(remembered, func(h usage.History) bool { return h.Container == "app" }); i >= 0 {
				c.History = remembered[i]
			}
			_ = r.book.Restore(r.a.Target, "app", c)
		}
	}
	for _, h := range remembered {
		_ = r.book.Recall(r.a.Target, h)
	}
	return r
}

// measure takes samples of a quarter of a core and 256 MiB for some hours.
func (r *restored) measure() {
	pod := &cluster.Pod{
		Key: cluster.Key{Namespace: "shop", Name: "web-1"}, UID: "uid", Top: r.a.Target, Phase: cluster.Running,
		Containers: []cluster.Container{{Name: "app"}},
	}
	r.book.Track(pod)
	for range 30 {
		r.now = r.now.Add(10 * time.Minute)
		r.book.Tick(r.now)
		r.book.Observe(usage.Sample{Pod: pod.Key, Container: "app", At: r.now, CPU: 0.25, Memory: 256 << 20, Has: cluster.Both})
	}
}

func (r *restored) check(t *testing.T, when string) {
	t.Helper()
	for _, adv := range recommend.Workload(r.profile.Params, r.profile.Estimator, r.book, r.a, r.a.Target, r.now) {
		for _, res := range cluster.All {
			lower, target, upper := adv.Lower.Amount(res), adv.Target.Amount(res), adv.Upper.Amount(res)
			most := int64(mostMillicores)
			if res == cluster.Memory {
				most = mostBytes
			}
			if lower < 0 || lower > target || target > upper || target > most {
				t.Fatalf("%s, %s: %s of %s is %d, %d, %d", r.profile.Name, when, res, adv.Container, lower, target, upper)
			}
		}
	}
}

// objectsOf returns what is stored of a life of some days with a profile: the checkpoint and the history.
func objectsOf(f testing.TB, p recommend.Profile) (checkpoint, history []byte) {
	r := beginWith(p, nil, nil)
	r.now = time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	for range 10 {
		r.measure()
		r.now = r.now.Add(23 * time.Hour)
	}
	c, ok := r.book.Checkpoint(r.a.Target, "app", r.now)
	if !ok {
		f.Fatal("nothing to store")
	}
	write := func(meta, status any) []byte {
		raw, err := json.Marshal(map[string]any{"metadata": meta, "status": status, "spec": map[string]any{
			"vpaObjectName": "web", "containerName": "app", "target": map[string]string{"group": "apps", "kind": "Deployment", "name": "web"},
		}})
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	annotation := map[string]string{annotationWindow: base64.StdEncoding.EncodeToString(c.Carry().Extra)}
	return write(map[string]any{"annotations": annotation}, checkpointStatus(&c)),
		write(map[string]any{}, historyStatus(r.book.Histories(r.a.Target, r.now)))
}

// Whatever stands in the objects that history is read from: no panic, bounds in order and of this world, and the next
// things to be stored can be read again.
func FuzzRestore(f *testing.F) {
	builtins := recommend.Builtins()
	for i, p := range builtins {
		checkpoint, history := objectsOf(f, p)
		f.Add(uint8(i), checkpoint, history)
		f.Add(uint8(i+1), checkpoint, history)
		f.Add(uint8(i), []byte(`{}`), history)
	}
	for _, status := range hostileStatuses {
		f.Add(uint8(1), fmt.Appendf(nil, `{"metadata":{"annotations":{"podfit.dev/window":"AQAAAAAAAAA="}},"status":%s}`, status), []byte(`{}`))
	}
	for _, entry := range hostileEntries {
		for i := range builtins {
			f.Add(uint8(i), []byte(`{}`), fmt.Appendf(nil, `{"status":{"histories":[%s]}}`, entry))
		}
	}
	f.Fuzz(func(t *testing.T, profile uint8, checkpoint, history []byte) {
		p := builtins[int(profile)%len(builtins)]
		r := beginWith(p, checkpoint, history)
		r.check(t, "before the first sample")
		r.measure()
		r.check(t, "with samples")
		c, ok := r.book.Checkpoint(r.a.Target, "app", r.now)
		if !ok {
			t.Fatal("nothing is known of what was measured")
		}
		next := usage.NewStore(usage.DefaultConfig())
		next.Tick(r.now)
		if p.Extend != nil {
			next.Extend(r.a.Target, p.Extend)
		}
		if err := next.Restore(r.a.Target, "app", c.Carry()); err != nil {
			t.Fatalf("%s: what was stored cannot be read: %v", p.Name, err)
		}
	})
}

// Checkpoints with everything at its extremes. The API server lets them pass.
var hostileStatuses = []string{
	`{"version":"v3","lastUpdateTime":"2026-03-20T11:00:00Z","totalSamplesCount":9223372036854775807,"firstSampleStart":"2026-03-01T00:00:00Z","lastSampleStart":"2026-03-20T00:00:00Z"}`,
	`{"version":"v3","totalSamplesCount":-1}`,
	`{"version":"v3","totalSamplesCount":1e3}`,
	`{"version":"v3","totalSamplesCount":9223372036854775808}`,
	`{"version":"v3","lastUpdateTime":"9999-12-31T23:59:59Z"}`,
	`{"version":"v3","lastUpdateTime":"0001-01-01T00:00:00Z","firstSampleStart":"2026-03-20T00:00:00Z","lastSampleStart":"2026-03-01T00:00:00Z"}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":1e308,"bucketWeights":{"0":10000},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":-1e308,"bucketWeights":{"0":10000},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":1e309}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":"NaN"}}`,
	`{"version":"v3","cpuHistogram":{"totalWeight":5e-324,"bucketWeights":{"175":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"175":4294967295,"0":4294967295},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"175":4294967296},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"-1":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"176":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"9223372036854775807":1},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"0":0},"referenceTimestamp":"2026-03-20T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":0,"bucketWeights":{"3":10000},"referenceTimestamp":null}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"3":10000},"referenceTimestamp":"9999-01-01T00:00:00Z"}}`,
	`{"version":"v3","memoryHistogram":{"totalWeight":1,"bucketWeights":{"3":10000},"referenceTimestamp":"0001-01-01T00:00:01Z"}}`,
	`{"version":"v3","cpuHistogram":null,"memoryHistogram":null,"lastUpdateTime":null}`,
	`{"version":3}`, `[]`, `null`, `"v3"`, `{"version":"v2"}`, `{"version":""}`,
}

// Entries of histories with everything at its extremes.
var hostileEntries = []string{
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":""}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"AQ=="}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="}`,
	`{"container":"app","format":"","updated":"2026-03-20T11:00:00Z","data":"/////////////////////////////////////////////////////////////w=="}`,
	`{"container":"app","format":"adaptive/1","updated":"9999-12-31T23:59:59Z","data":"AQAA"}`,
	`{"container":"app","format":"adaptive/1","updated":null,"data":"AQAA"}`,
	`{"container":"app","format":"adaptive/1","updated":"2026-03-20T11:00:00Z","lastSample":"9999-12-31T23:59:59Z","data":"AQAA"}`,
	`{"container":"","format":"adaptive/1","updated":"2026-03-20T11:00:00Z","data":"AQAA"}`,
	`{"container":"app","data":7}`, `7`, `null`, `{"container":"app","data":"!"}`,
}
