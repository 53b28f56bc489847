// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"podfit.dev/podfit/internal/core/cluster"
)

// worldOfMany returns a world of n autoscalers with two containers each.
func worldOfMany(n int) fakeWorld {
	as := make([]*cluster.Autoscaler, n)
	for i := range as {
		a := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(350, mi(745)), "proxy": cluster.Amounts(25, mi(64))})
		a.Name = fmt.Sprint("web-", i)
		a.Target.Name = fmt.Sprint("web-", i)
		as[i] = a
	}
	as[n/2].Target = shopCart
	return worldOf(as...)
}

// typicalReview returns the review of a pod of typical size, some kilobytes.
func typicalReview(t testing.TB) []byte {
	env := `"env":[{"name":"A","value":"` + string(bytes.Repeat([]byte("x"), 200)) + `"},{"name":"B","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],
		"volumeMounts":[{"name":"v","mountPath":"/v"},{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}],
		"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
		"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent",
		"securityContext":{"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"allowPrivilegeEscalation":false}`
	resources := `"resources":{"requests":{"cpu":"100m","memory":"128Mi"},"limits":{"cpu":"1","memory":"1Gi"}}`
	pod := cart(`"labels":{"app":"cart","pod-template-hash":"6c54bd5869"},"annotations":{"prometheus.io/scrape":"true"}`,
		`"containers":[{"name":"app","image":"registry.example.com/shop/cart:1.2.3",`+resources+`,`+env+`},{"name":"proxy","image":"registry.example.com/mesh/proxy:1",`+resources+`,`+env+`}],
		"volumes":[{"name":"v","emptyDir":{}}],"restartPolicy":"Always","dnsPolicy":"ClusterFirst","serviceAccountName":"cart",
		"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}]`)
	request := createRequest(pod)
	request.UserInfo.Username = "system:serviceaccount:kube-system:replicaset-controller"
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func serve(t testing.TB, h http.Handler, body []byte) {
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"patch"`)) {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
}

// BenchmarkNewPod measures one review, from the bytes of the request to those of the response, with 1 and with 10,000 autoscalers.
func BenchmarkNewPod(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("autoscalers=%d", n), func(b *testing.B) {
			h := handler(worldOfMany(n), Options{})
			body := typicalReview(b)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				serve(b, h, body)
			}
		})
	}
}

// BenchmarkFiveHundredASecond sends 500 reviews per second without waiting for responses. It reports the 99th percentile of the time
// from when a review should be sent to its response. The budget is 5 ms.
func BenchmarkFiveHundredASecond(b *testing.B) {
	h := handler(worldOfMany(10_000), Options{})
	body := typicalReview(b)
	const every = time.Second / 500
	for b.Loop() {
		const n = 500
		took := make(chan time.Duration, n)
		begin := time.Now()
		tick := time.NewTicker(every / 4)
		for sent := 0; sent < n; {
			<-tick.C
			for ; sent < n && time.Since(begin) >= time.Duration(sent)*every; sent++ {
				due := begin.Add(time.Duration(sent) * every)
				go func() { serve(b, h, body); took <- time.Since(due) }()
			}
		}
		tick.Stop()
		all := make([]time.Duration, n)
		for i := range all {
			all[i] = <-took
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[n*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(all[n/2].Microseconds())/1000, "p50-ms")
	}
}

func TestHandler_newPod_staysWithinAllocationBudget(t *testing.T) {
	h := handler(worldOfMany(100), Options{})
	body := typicalReview(t)
	// Measured: 233, and 242 with the race detector, including those of httptest. Most come from decoding the pod.
	if n := testing.AllocsPerRun(100, func() { serve(t, h, body) }); n > 260 {
		t.Errorf("%.0f allocations, want at most 260", n)
	}
}
