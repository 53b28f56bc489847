// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package actuation

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
	"podfit.dev/podfit/test/kubetest"
)

const (
	hpasPath = "/apis/autoscaling/v2/horizontalpodautoscalers"
	hpaPath  = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
	hpaSpec  = `"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},
		{"type":"ContainerResource","containerResource":{"name":"memory","container":"app","target":{"type":"Utilization","averageUtilization":70}}}]}`
)

func hpaToWrite() *cluster.HorizontalAutoscaler {
	return &cluster.HorizontalAutoscaler{Key: cluster.Key{Namespace: "shop", Name: "web"}, UID: "u", Utilization: []cluster.UtilizationTarget{
		{Index: 0, Resource: cluster.CPU, Percent: 80}, {Index: 1, Resource: cluster.Memory, Container: "app", Percent: 70},
	}}
}

func TestHorizontalWriter_setTargets_changesOnlyTheTargetsThatWereRead(t *testing.T) {
	points := []cluster.ScalePoint{{Resource: cluster.CPU, Base: 500, Percent: 80, Set: 62}}
	record := `"annotations":{"podfit.dev/scale-point":"[]","x":"y"}`
	for name, c := range map[string]struct {
		meta   string
		change func(*cluster.HorizontalAutoscaler)
		points []cluster.ScalePoint
		err    error
	}{
		"done":                         {meta: `"uid":"u",` + record, points: points},
		"record removed":               {meta: `"uid":"u",` + record},
		"another HPA":                  {meta: `"uid":"v",` + record, points: points, err: kube.ErrInvalid},
		"others removed the record":    {meta: `"uid":"u"`, points: points, err: kube.ErrInvalid},
		"others changed the target":    {meta: `"uid":"u",` + record, points: points, err: kube.ErrInvalid, change: func(h *cluster.HorizontalAutoscaler) { h.Utilization[0].Percent = 79 }},
		"others changed the metric":    {meta: `"uid":"u",` + record, points: points, err: kube.ErrInvalid, change: func(h *cluster.HorizontalAutoscaler) { h.Utilization[0].Resource = cluster.Memory }},
		"others removed the metric":    {meta: `"uid":"u",` + record, points: points, err: kube.ErrInvalid, change: func(h *cluster.HorizontalAutoscaler) { h.Utilization[0].Index = 2 }},
		"others changed the container": {meta: `"uid":"u",` + record, points: points, err: kube.ErrInvalid, change: func(h *cluster.HorizontalAutoscaler) { h.Utilization[1].Container = "log" }},
	} {
		f := kubetest.NewFakeAPI(t)
		f.Apply(hpasPath, `{"metadata":{"namespace":"shop","name":"web",`+c.meta+`},`+hpaSpec+`}`)
		h := hpaToWrite()
		if c.change != nil {
			c.change(h)
		}
		targets := map[int]int32{h.Utilization[0].Index: 62, 1: 55}
		err := NewHorizontalWriter(clientsOf(f)).SetTargets(t.Context(), h, targets, c.points)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: error %v, want %v", name, err, c.err)
		}
		percent := func(i int, source string) any {
			metrics := f.Object(hpasPath, "shop/web")["spec"].(map[string]any)["metrics"].([]any)
			return metrics[i].(map[string]any)[source].(map[string]any)["target"].(map[string]any)["averageUtilization"]
		}
		want := []any{80., 70.}
		if c.err == nil {
			want = []any{62., 55.}
		}
		if diff := cmp.Diff(want, []any{percent(0, "resource"), percent(1, "containerResource")}); diff != "" {
			t.Errorf("%s: targets (-want +got):\n%s", name, diff)
		}
		if c.err != nil {
			continue
		}
		annotations := kubetest.MetaOf(f.Object(hpasPath, "shop/web"))["annotations"].(map[string]any)
		text, _ := annotations["podfit.dev/scale-point"].(string)
		if diff := cmp.Diff(c.points, projection.ScalePoints(text)); diff != "" || annotations["x"] != "y" {
			t.Errorf("%s: annotations %v (-want +got):\n%s", name, annotations, diff)
		}
	}
}

func TestHorizontalWriter_record_hasTheUIDAndNoTarget(t *testing.T) {
	f := kubetest.NewFakeAPI(t)
	f.Apply(hpasPath, `{"metadata":{"namespace":"shop","name":"web","uid":"u"},`+hpaSpec+`}`)
	points := []cluster.ScalePoint{{Resource: cluster.Memory, Container: "app", Base: 1 << 30, Percent: 70, Set: 70, Resets: 1, ResetAt: time.Unix(1000, 0).UTC()}}
	if err := NewHorizontalWriter(clientsOf(f)).Record(t.Context(), hpaToWrite(), points); err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"podfit.dev/scale-point":` +
		`"[{\"resource\":\"memory\",\"container\":\"app\",\"request\":\"1Gi\",\"percent\":70,\"set\":70,\"resets\":1,\"resetAt\":\"1970-01-01T00:16:40Z\"}]"},"uid":"u"}}`
	if diff := cmp.Diff(want, compact(t, f.Body("PATCH "+hpaPath))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := projection.ScalePointsAnnotation(points)
	if diff := cmp.Diff(points, projection.ScalePoints(text)); diff != "" || err != nil {
		t.Errorf("error %v, records after a round trip (-want +got):\n%s", err, diff)
	}
}
