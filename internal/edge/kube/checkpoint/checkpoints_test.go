// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/histogram"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/test/kubetest"
)

func someCheckpoint(samples int) usage.Checkpoint {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return usage.Checkpoint{
		Updated:     noon,
		Version:     "v3",
		CPU:         histogram.Checkpoint{Reference: noon.Add(-time.Hour), Weights: map[int]uint32{3: 10000, 7: 12}, Total: 4.5},
		Memory:      histogram.Checkpoint{Weights: map[int]uint32{40: 10000}, Total: 2},
		FirstSample: noon.Add(-24 * time.Hour),
		LastSample:  noon.Add(-time.Minute),
		Samples:     samples,
		Extra:       []byte{1, 0, 255},
	}
}

func checkpointKey(autoscaler, container string) Key {
	return Key{cluster.Key{Namespace: "shop", Name: autoscaler}, container}
}

func loadAll(t *testing.T, c *Checkpoints) map[Key]usage.Checkpoint {
	t.Helper()
	all, err := c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var sameCheckpoint = cmp.Options{cmpopts.IgnoreUnexported(usage.Checkpoint{})}

func TestCheckpoints_written_areLoadedAfterRestart(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	key := checkpointKey("web", "app")
	for i := range 3 { // created, then patched
		if err := c.Write(t.Context(), key, someCheckpoint(i)); err != nil {
			t.Fatal(err)
		}
	}
	got := loadAll(t, NewCheckpoints(clientsOf(f), StorageOptions{}))
	if diff := cmp.Diff(map[Key]usage.Checkpoint{key: someCheckpoint(2)}, got, sameCheckpoint); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o := f.Object(kubetest.CheckpointsPath, "shop/web-app")
	text, err := json.Marshal(o["status"])
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cpuHistogram":{"bucketWeights":{"3":10000,"7":12},"referenceTimestamp":"2026-03-01T11:00:00Z","totalWeight":4.5},` +
		`"firstSampleStart":"2026-02-28T12:00:00Z","lastSampleStart":"2026-03-01T11:59:00Z","lastUpdateTime":"2026-03-01T12:00:00Z",` +
		`"memoryHistogram":{"bucketWeights":{"40":10000},"referenceTimestamp":null,"totalWeight":2},"totalSamplesCount":2,"version":"v3"}`
	if string(text) != want {
		t.Errorf("status\n%s, want\n%s", text, want)
	}
	paths := []string{"POST /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints"}
	for range 2 {
		paths = append(paths, "PATCH /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints/web-app")
	}
	if diff := cmp.Diff(paths, f.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestCheckpoints_writtenByUpstream_areUpdated(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"shop","name":"web-app","annotations":{"other":"kept","podfit.dev/window":"not base64!"}},
		"spec":{"vpaObjectName":"web","containerName":"app"},"status":{"version":"v3","totalSamplesCount":7,
		"lastUpdateTime":"2026-03-01T12:00:00Z","firstSampleStart":null,"cpuHistogram":{"referenceTimestamp":null,"bucketWeights":{"1":10000},"totalWeight":1}}}`)
	f.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"shop","name":"bad-app"},"spec":{"vpaObjectName":"bad","containerName":"app"},
		"status":{"version":"v3","cpuHistogram":{"bucketWeights":{"x":"y"}}}}`)
	f.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"lab","name":"web-app"},"spec":{"vpaObjectName":"web","containerName":"app"}}`)
	c := NewCheckpoints(clientsOf(f), StorageOptions{Ignored: []string{"lab"}})
	all := loadAll(t, c)
	got := all[checkpointKey("web", "app")]
	if len(all) != 1 || got.Samples != 7 || got.Extra != nil || got.CPU.Weights[1] != 10000 || !got.FirstSample.IsZero() {
		t.Errorf("loaded %+v", all)
	}
	for _, name := range []string{"web", "bad"} { // the one that cannot be decoded is replaced
		if err := c.Write(t.Context(), checkpointKey(name, "app"), someCheckpoint(1)); err != nil {
			t.Error(err)
		}
	}
	if a := kubetest.MetaOf(f.Object(kubetest.CheckpointsPath, "shop/web-app"))["annotations"]; cmp.Diff(a, map[string]any{"other": "kept", "podfit.dev/window": "AQD/"}) != "" {
		t.Errorf("annotations %v", a)
	}
	if again := loadAll(t, c); again[checkpointKey("bad", "app")].Samples != 1 {
		t.Errorf("loaded %+v", again)
	}
}

func TestCheckpoints_sameNameOfTwoContainers_getTwoObjects(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	first := checkpointKey("a", "b-c")
	second := checkpointKey("a-b", "c")
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	for i, key := range []Key{first, second, first, second} {
		if err := c.Write(t.Context(), key, someCheckpoint(i)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := NewCheckpoints(clientsOf(f), StorageOptions{})
	if err := fresh.Write(t.Context(), second, someCheckpoint(9)); err != nil { // without loading them first
		t.Fatal(err)
	}
	all := loadAll(t, fresh)
	if len(all) != 2 || all[first].Samples != 2 || all[second].Samples != 9 {
		t.Errorf("loaded %+v", all)
	}
}

func TestCheckpoints_twoObjectsOfOneKey_usualNameWins(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	key := checkpointKey("web", "app")
	alternate := alternateName(key)
	for name, samples := range map[string]int{alternate: 1, "web-app": 2} {
		f.Apply(kubetest.CheckpointsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":%q},"spec":{"vpaObjectName":"web","containerName":"app"},
			"status":{"version":"v3","totalSamplesCount":%d}}`, name, samples))
	}
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	if all := loadAll(t, c); len(all) != 1 || all[key].Samples != 2 {
		t.Errorf("loaded %+v", all)
	}
	n, err := c.Collect(t.Context(), Unused{Existing: map[cluster.Key]bool{key.Autoscaler: true}})
	if n != 1 || err != nil || f.Object(kubetest.CheckpointsPath, "shop/"+alternate) != nil || f.Object(kubetest.CheckpointsPath, "shop/web-app") == nil {
		t.Errorf("collected %d, error %v", n, err)
	}
}

func TestCheckpoints_changedByAnotherClient_returnsConflict(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	key := checkpointKey("web", "app")
	old := NewCheckpoints(clientsOf(f), StorageOptions{})
	leader := NewCheckpoints(clientsOf(f), StorageOptions{})
	if err := old.Write(t.Context(), key, someCheckpoint(1)); err != nil {
		t.Fatal(err)
	}
	loadAll(t, leader)
	if err := leader.Write(t.Context(), key, someCheckpoint(2)); err != nil {
		t.Fatal(err)
	}
	if err := old.Write(t.Context(), key, someCheckpoint(1)); !errors.Is(err, kube.ErrConflict) { // W-24
		t.Fatalf("error %v", err)
	}
	if all := loadAll(t, leader); all[key].Samples != 2 {
		t.Errorf("loaded %+v", all)
	}
	if err := old.Write(t.Context(), key, someCheckpoint(3)); err != nil { // it has read the new version
		t.Error(err)
	}
}

func TestCheckpoints_deletedByUser_isCreatedAgain(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	key := checkpointKey("web", "app")
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	for range 2 {
		if err := c.Write(t.Context(), key, someCheckpoint(1)); err != nil {
			t.Fatal(err)
		}
		f.Delete(kubetest.CheckpointsPath, "shop/web-app")
	}
	if all := loadAll(t, c); len(all) != 0 {
		t.Errorf("loaded %+v", all)
	}
}

func TestCheckpoints_collect_deletesOnlyOrphans(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	put := func(ns, vpa, container string) {
		f.Apply(kubetest.CheckpointsPath, fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"vpaObjectName":%q,"containerName":%q}}`,
			ns, vpa+"-"+container, vpa, container))
	}
	existing := map[cluster.Key]bool{{Namespace: "shop", Name: "web"}: true}
	for i := range kube.PageSize + 20 {
		name := fmt.Sprintf("v%04d", i)
		put("many", name, "app")
		existing[cluster.Key{Namespace: "many", Name: name}] = true
	}
	put("shop", "web", "app")
	put("shop", "web", "gone")
	put("shop", "deleted", "app")
	put("ignored", "deleted", "app")
	c := NewCheckpoints(clientsOf(f), StorageOptions{Ignored: []string{"ignored"}})
	n, err := c.Collect(t.Context(), Unused{Existing: existing, Expired: map[Key]bool{checkpointKey("web", "gone"): true}})
	if n != 2 || err != nil {
		t.Errorf("collected %d, error %v", n, err)
	}
	seen := f.Requests()
	slices.Sort(seen)
	const path = "DELETE /apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalercheckpoints/"
	if diff := cmp.Diff([]string{path + "deleted-app", path + "web-gone"}, seen); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if body := f.Body(path + "web-gone"); !strings.Contains(body, `"resourceVersion"`) || !strings.Contains(body, `"uid"`) {
		t.Errorf("no preconditions in %s", body)
	}
}

// A page has so few objects that it is bounded even if each has the maximum size of an object.
func TestCheckpoints_manyAndLargeObjects_memoryIsBounded(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	put := func(vpa, padding string) {
		f.Apply(kubetest.CheckpointsPath, fmt.Sprintf(`{"metadata":{"namespace":"shop","name":"%[1]s-app"},"spec":{"vpaObjectName":%[1]q,"containerName":"app"},`+
			`"status":{"version":"v3","totalSamplesCount":7,"padding":%[2]q}}`, vpa, padding))
	}
	for i := range 2 * storedPageSize {
		put(fmt.Sprintf("v%04d", i), "")
	}
	put("huge", strings.Repeat("x", 1<<20))
	f.Apply(kubetest.CheckpointsPath, `{"metadata":{"namespace":"shop","name":"broken"},"spec":7}`)
	var log bytes.Buffer
	c := NewCheckpoints(clientsOf(f), StorageOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
	all, err := c.Load(t.Context())
	if err != nil || len(all) != 2*storedPageSize || all[checkpointKey("v0000", "app")].Samples != 7 {
		t.Errorf("%d checkpoints are loaded, error %v, want %d", len(all), err, 2*storedPageSize)
	}
	if pages, query := f.Lists(kubetest.CheckpointsPath); pages != 3 || !strings.Contains(query, "limit=50") {
		t.Errorf("%d pages, the last with %s; want 3 with limit=50", pages, query)
	}
	if text := log.String(); !strings.Contains(text, "kubectl delete verticalpodautoscalercheckpoint -n shop huge-app") || strings.Count(text, "level=WARN") != 2 {
		t.Errorf("the log does not name the remedy, or is not two warnings: %s", text)
	}
}

// The namespace controller deletes the checkpoints, not podfit.
func TestCheckpoints_deletedNamespace_recordIsRemoved(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	existing := map[cluster.Key]bool{}
	for i := range 20 {
		key := Key{cluster.Key{Namespace: fmt.Sprint("ns-", i), Name: "web"}, "app"}
		existing[key.Autoscaler] = true
		if err := c.Write(t.Context(), key, someCheckpoint(1)); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			f.Delete(kubetest.CheckpointsPath, key.Autoscaler.Namespace+"/web-app")
		}
	}
	if _, err := c.Collect(t.Context(), Unused{Existing: existing}); err != nil {
		t.Fatal(err)
	}
	if n := len(c.known); n != 1 {
		t.Errorf("%d checkpoints are recorded, want 1", n)
	}
	deleted := Key{cluster.Key{Namespace: "ns-7", Name: "web"}, "app"}
	if err := c.Write(t.Context(), deleted, someCheckpoint(2)); err != nil { // the namespace exists again
		t.Error(err)
	}
}

func TestCheckpointName_longNames_areValid(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, key := range []Key{checkpointKey("web", "app"), checkpointKey(long, strings.Repeat("c", 63)), checkpointKey(strings.Repeat("y.", 120)+"y", "c")} {
		for _, name := range []string{checkpointName(key), alternateName(key)} {
			if len(name) > 253 || strings.Contains(name, ".-") || strings.HasSuffix(name, "-") {
				t.Errorf("name %q of length %d", name, len(name))
			}
		}
	}
	if checkpointName(checkpointKey("web", "app")) != "web-app" {
		t.Error("the name differs from upstream's")
	}
}

// FuzzDecodeCheckpoint decodes arbitrary checkpoints. podfit must not panic, and what it accepts must stay the same when it is written and
// decoded again.
func FuzzDecodeCheckpoint(f *testing.F) {
	var o checkpointObject
	o.Spec = v1.VerticalPodAutoscalerCheckpointSpec{VPAObjectName: "a", ContainerName: "b"}
	p := someCheckpoint(3)
	status, err := json.Marshal(checkpointStatus(&p))
	if err != nil {
		f.Fatal(err)
	}
	o.Status = status
	raw, err := json.Marshal(o)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o checkpointObject
		if json.Unmarshal(raw, &o) != nil {
			return
		}
		p, err := o.checkpoint()
		if err != nil {
			return
		}
		again, err := json.Marshal(checkpointStatus(&p))
		if err != nil {
			return // JSON cannot represent such a time
		}
		back := o
		back.Status = again
		q, err := back.checkpoint()
		if err != nil {
			t.Fatal(err)
		}
		if q.Samples != p.Samples || q.Version != p.Version || len(q.CPU.Weights) != len(p.CPU.Weights) || q.Memory.Total != p.Memory.Total {
			t.Errorf("wrote %+v, decoded %+v", p, q)
		}
	})
}

func TestCheckpoints_target_isWrittenAsAnnotation(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	key := checkpointKey("web", "app")
	rollout := cluster.Workload{Group: "argoproj.io", Kind: "Rollout", Namespace: "shop", Name: "web"}
	controller := cluster.Workload{Kind: "ReplicationController", Namespace: "shop", Name: "web"}
	for i, w := range []cluster.Workload{rollout, controller} { // created, then patched
		p := someCheckpoint(1)
		p.Workload = w
		p.Updated = p.Updated.Add(time.Duration(i) * time.Hour)
		if err := c.Write(t.Context(), key, p); err != nil {
			t.Fatal(err)
		}
		if got := loadAll(t, NewCheckpoints(clientsOf(f), StorageOptions{}))[key].Workload; got != w {
			t.Errorf("loaded a checkpoint of %v, want %v", got, w)
		}
	}
	// Upstream writes the status and does not change the annotations.
	o := f.Object(kubetest.CheckpointsPath, "shop/web-app")
	o["status"].(map[string]any)["lastUpdateTime"] = "2026-03-02T12:00:00Z"
	if got := loadAll(t, NewCheckpoints(clientsOf(f), StorageOptions{}))[key].Workload; !got.IsZero() {
		t.Errorf("the workload of a checkpoint that upstream wrote is %v, want none", got)
	}
	for _, broken := range []string{"", " ", "web", "apps/Deployment", "//", "apps//web x", "apps/Deployment/web"} {
		kubetest.MetaOf(o)["annotations"] = map[string]any{annotationTarget: broken}
		if got := loadAll(t, NewCheckpoints(clientsOf(f), StorageOptions{}))[key].Workload; !got.IsZero() {
			t.Errorf("annotation %q: the workload is %v, want none", broken, got)
		}
	}
}

// clientsOf returns clients of a fake API.
func clientsOf(f *kubetest.FakeAPI) *kube.Clients {
	cs, err := kube.ClientsFor(f.Config())
	if err != nil {
		panic(err)
	}
	return cs
}

// The name of the profile and the smallest node must survive a status that another recommender writes, and objects without it must be readable.
func TestCheckpoints_profile_isStoredInAnAnnotation(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	key := checkpointKey("web", "app")
	c := NewCheckpoints(clientsOf(f), StorageOptions{})
	for _, profile := range []string{"", "mine", "yours"} {
		p := someCheckpoint(1)
		p.Profile, p.Node = profile, profile+" 1 2"
		if err := c.Write(t.Context(), key, p); err != nil {
			t.Fatal(err)
		}
		if got := loadAll(t, c)[key]; got.Profile != profile || got.Node != p.Node {
			t.Errorf("loaded profile %q and node %q, want %q and %q", got.Profile, got.Node, profile, p.Node)
		}
	}
	if got := kubetest.MetaOf(f.Object(kubetest.CheckpointsPath, "shop/web-app"))["annotations"].(map[string]any)[annotationProfile]; got != "yours" {
		t.Errorf("annotation %v, want yours", got)
	}
}
