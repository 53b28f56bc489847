// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/usage"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func asProtobuf(t testing.TB, list *metricsv1beta1.PodMetricsList) []byte {
	t.Helper()
	s := runtime.NewScheme()
	if err := metricsv1beta1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	list.APIVersion = "metrics.k8s.io/v1beta1"
	list.Kind = "PodMetricsList"
	var b bytes.Buffer
	if err := protobuf.NewSerializer(s, s).Encode(list, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asJSON(t testing.TB, list *metricsv1beta1.PodMetricsList) []byte {
	t.Helper()
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reference is the reference implementation of decode: it converts decoded objects.
func reference(list *metricsv1beta1.PodMetricsList) []usage.Sample {
	var out []usage.Sample
	for _, p := range list.Items {
		for _, c := range p.Containers {
			s := usage.Sample{
				Pod:       cluster.Key{Namespace: p.Namespace, Name: p.Name},
				Container: c.Name,
				At:        p.Timestamp.UTC(),
			}
			if q, ok := c.Usage[corev1.ResourceCPU]; ok {
				s.CPU = float64(q.MilliValue()) / 1000
				s.Has = s.Has.With(cluster.CPU)
			}
			if q, ok := c.Usage[corev1.ResourceMemory]; ok {
				s.Memory = float64(q.Value())
				s.Has = s.Has.With(cluster.Memory)
			}
			if !s.Has.Empty() {
				out = append(out, s)
			}
		}
	}
	return out
}

func randomList(r *rand.Rand) *metricsv1beta1.PodMetricsList {
	list := &metricsv1beta1.PodMetricsList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "c"}}
	for i := range r.IntN(20) {
		p := metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{
				Namespace:         fmt.Sprintf("ns-%d", r.IntN(3)),
				Name:              fmt.Sprintf("pod-%d", i),
				Labels:            map[string]string{"app": "x", "pod-template-hash": "y"},
				CreationTimestamp: metav1.NewTime(noon),
			},
			Timestamp: metav1.NewTime(noon.Add(time.Duration(r.IntN(1000)) * time.Second)),
			Window:    metav1.Duration{Duration: 15 * time.Second},
		}
		for j := range r.IntN(4) {
			c := metricsv1beta1.ContainerMetrics{Name: fmt.Sprintf("c%d", j), Usage: corev1.ResourceList{}}
			if r.IntN(5) > 0 {
				c.Usage[corev1.ResourceCPU] = *resource.NewScaledQuantity(r.Int64N(4e9), resource.Nano)
			}
			if r.IntN(5) > 0 {
				c.Usage[corev1.ResourceMemory] = *resource.NewQuantity(r.Int64N(1e12), resource.BinarySI)
			}
			if r.IntN(5) == 0 {
				c.Usage[corev1.ResourceEphemeralStorage] = resource.MustParse("1Gi")
			}
			p.Containers = append(p.Containers, c)
		}
		list.Items = append(list.Items, p)
	}
	return list
}

func TestDecode_randomList_equalsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		list := randomList(r)
		want := reference(list)
		for form, raw := range map[string][]byte{"protobuf": asProtobuf(t, list), "json": asJSON(t, list)} {
			got, unreadable, err := decode(raw)
			if err != nil || unreadable != 0 {
				t.Fatalf("%s: got error %v and %d unreadable containers", form, err, unreadable)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", form, diff)
			}
		}
	}
}

func TestDecode_fractionOfAMillicore_isRoundedUp(t *testing.T) {
	raw := []byte(`{"items":[{"metadata":{"namespace":"n","name":"p"},"timestamp":"2026-03-01T12:00:00Z",
		"containers":[{"name":"c","usage":{"cpu":"1000001n","memory":"1Ki"}}]}]}`)
	got, _, err := decode(raw)
	want := []usage.Sample{{Pod: cluster.Key{Namespace: "n", Name: "p"}, Container: "c", At: noon,
		CPU: 0.002, Memory: 1024, Has: cluster.Both}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("got error %v (-want +got):\n%s", err, diff)
	}
}

func TestDecode_missingResource_isAbsentAndNotZero(t *testing.T) {
	raw := []byte(`{"items":[{"metadata":{"namespace":"n","name":"p"},"timestamp":"2026-03-01T12:00:00Z",
		"containers":[{"name":"c","usage":{"cpu":"5m"}},{"name":"d","usage":{}}]}]}`)
	got, _, err := decode(raw)
	if err != nil || len(got) != 1 || got[0].Has != cluster.Of(cluster.CPU) {
		t.Fatalf("got samples %+v, error %v", got, err)
	}
}

func TestDecode_invalidContainer_othersAreRead(t *testing.T) {
	raw := []byte(`{"items":[
		{"metadata":{"namespace":"n","name":"p"},"timestamp":"2026-03-01T12:00:00Z","containers":[
			{"name":"bad","usage":{"cpu":"many"}},{"name":"good","usage":{"cpu":"5m"}}]},
		{"metadata":{"namespace":"n","name":"no-timestamp"},"containers":[{"name":"c","usage":{"cpu":"5m"}}]},
		{"metadata":"invalid"},
		{"metadata":{"namespace":"n","name":"q"},"timestamp":"2026-03-01T12:00:00Z","containers":[
			{"name":"number","usage":{"cpu":1,"memory":2048}}]}]}`)
	got, unreadable, err := decode(raw)
	var names []string
	for _, s := range got {
		names = append(names, s.Container)
	}
	if diff := cmp.Diff([]string{"good", "number"}, names); diff != "" || unreadable != 3 || err != nil {
		t.Fatalf("got %d unreadable containers, want 3; error %v (-want +got):\n%s", unreadable, err, diff)
	}
}

func TestDecode_truncatedResponse_returnsError(t *testing.T) {
	list := randomList(rand.New(rand.NewPCG(3, 4)))
	raw := asProtobuf(t, list)
	if _, _, err := decode(raw[:len(raw)/2]); err == nil {
		t.Error("no error for half a protobuf response")
	}
	raw = asJSON(t, list)
	if _, _, err := decode(raw[:len(raw)/2]); err == nil {
		t.Error("no error for half a JSON response")
	}
}

// FuzzDecode decodes arbitrary responses. Each sample must be complete.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		list := randomList(r)
		f.Add(asProtobuf(f, list))
		f.Add(asJSON(f, list))
	}
	f.Add([]byte("k8s\x00\x12\x02\x12\x00"))
	for _, q := range []string{"0", "1n", "-1n", "999999999n", "-1", "9223372036854775807", "9223372036854775808", "1e30", "16Ei", "0.0000000001", "NaN", "Inf", "1.2.3", ""} {
		f.Add(fmt.Appendf(nil, `{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[{"metadata":{"name":"p","namespace":"n"},
			"timestamp":"2026-03-01T12:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":%q,"memory":%q}}]}]}`, q, q))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		samples, _, err := decode(raw)
		if err != nil {
			return
		}
		for _, s := range samples {
			if s.Has.Empty() || s.At.IsZero() || s.Container == "" || s.Pod.Name == "" {
				t.Errorf("got an incomplete sample: %+v", s)
			}
			if math.IsNaN(s.CPU) || math.IsNaN(s.Memory) || math.IsInf(s.CPU, 0) || math.IsInf(s.Memory, 0) {
				t.Errorf("got usage that is not a number: %+v", s)
			}
		}
	})
}

func largeList(pods int) *metricsv1beta1.PodMetricsList {
	list := new(metricsv1beta1.PodMetricsList)
	for i := range pods {
		list.Items = append(list.Items, metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprintf("team-%d", i%50),
				Name:      fmt.Sprintf("service-%d-7d4b9c6f5d-x2x9z", i),
				Labels:    map[string]string{"app.kubernetes.io/name": "service", "pod-template-hash": "7d4b9c6f5d"},
			},
			Timestamp: metav1.NewTime(noon),
			Window:    metav1.Duration{Duration: 15 * time.Second},
			Containers: []metricsv1beta1.ContainerMetrics{{Name: "app", Usage: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewScaledQuantity(123456789, resource.Nano),
				corev1.ResourceMemory: *resource.NewQuantity(123<<20, resource.BinarySI),
			}}},
		})
	}
	return list
}

// The allocations per pod are those of its name and its share of the slice of samples.
func TestDecode_manyPods_staysWithinAllocationBudget(t *testing.T) {
	const pods = 1000
	raw := asProtobuf(t, largeList(pods))
	perPod := testing.AllocsPerRun(5, func() {
		if _, _, err := decode(raw); err != nil {
			t.Fatal(err)
		}
	}) / pods
	if perPod > 4 {
		t.Errorf("got %.1f allocations per pod, want at most 4", perPod)
	}
}

func BenchmarkDecodeProtobuf(b *testing.B) {
	for _, pods := range []int{1000, 100_000} {
		raw := asProtobuf(b, largeList(pods))
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, _, err := decode(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
