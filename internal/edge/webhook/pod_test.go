// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

const owned = `"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart","uid":"1","controller":true}]`

// cart returns a pod of shop/cart as a ReplicaSet creates it: without name and namespace.
func cart(metadata, spec string) string {
	if metadata != "" {
		metadata = "," + metadata
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"cart-",%s%s},"spec":{%s}}`, owned, metadata, spec)
}

func mi(n int64) int64 { return n << 20 }

func TestHandler_newPod_getsItsSize(t *testing.T) {
	app := map[string]cluster.Resources{"app": cluster.Amounts(350, mi(745))}
	memory := func(n int64) cluster.Resources { return cluster.Resources{}.Set(cluster.Memory, mi(n)) }
	// The second init container has been OOM-killed, so that it gets more than the others. The pod requests 200 MiB with its own amounts.
	killedInit := map[string]cluster.Resources{"app": memory(100), "first": memory(80), "second": memory(500)}
	const twoInit = `"initContainers":[{"name":"first","resources":{"requests":{"memory":"10Mi"}}},{"name":"second","resources":{"requests":{"memory":"10Mi"}}}],
		"containers":[{"name":"app","resources":{"requests":{"memory":"200Mi"}}}]`
	for name, c := range map[string]struct {
		autoscaler *cluster.Autoscaler
		options    Options
		limits     policy.Limits
		pod        string
		ops        []string // "path value", in order
	}{
		"without resources": {
			autoscaler: recommending("cart", app),
			pod:        cart("", `"containers":[{"name":"app","image":"x"}]`),
			ops: []string{
				`/metadata/annotations {}`,
				`/spec/containers/0/resources {}`,
				`/spec/containers/0/resources/requests {}`,
				`/spec/containers/0/resources/requests/cpu "350m"`,
				`/spec/containers/0/resources/requests/memory "745Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with requests and limits: their ratio is kept": {
			autoscaler: recommending("cart", app),
			pod: cart(`"annotations":{"a":"b"}`, `"containers":[{"name":"app","resources":{
				"requests":{"cpu":"100m","memory":"100Mi"},"limits":{"cpu":"200m","memory":"300Mi"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "350m"`,
				`/spec/containers/0/resources/requests/memory "745Mi"`,
				`/spec/containers/0/resources/limits/cpu "700m"`,
				`/spec/containers/0/resources/limits/memory "2235Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request, cpu limit, memory limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with limits only": {
			autoscaler: recommending("cart", app),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"limits":{"cpu":"1"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests {}`,
				`/spec/containers/0/resources/requests/cpu "350m"`,
				`/spec/containers/0/resources/requests/memory "745Mi"`,
				`/spec/containers/0/resources/limits/cpu "350m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: ` +
					`memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a recommendation for one of its containers": {
			autoscaler: recommending("cart", app),
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"app"}],
				"containers":[{"name":"proxy","resources":{"requests":{"cpu":"1"}}},{"name":"app","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]`),
			ops: []string{
				`/spec/containers/1/resources/requests/cpu "350m"`,
				`/spec/containers/1/resources/requests/memory "745Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 1: cpu request, memory request"`,
				`/metadata/annotations/vpaObservedContainers "proxy, app"`,
			},
		},
		"with sidecars: they are changed like containers": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(100)), "mesh": cluster.Amounts(100, mi(100))}),
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"setup"},{"name":"mesh","restartPolicy":"Always","resources":{"requests":{"cpu":"10m"}}}],
				"containers":[{"name":"app","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "100m"`,
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/spec/initContainers/1/resources/requests/cpu "100m"`,
				`/spec/initContainers/1/resources/requests/memory "100Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request; init container 1: cpu request, memory request"`,
				`/metadata/annotations/vpaObservedContainers "app, mesh"`,
			},
		},
		"with an init container: within the sum of the others": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(100)), "setup": cluster.Resources{}.Set(cluster.CPU, 900)}),
			options:    Options{InitContainers: true},
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"setup","resources":{"requests":{"cpu":"10m"}}}],
				"containers":[{"name":"app","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "100m"`,
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/spec/initContainers/0/resources/requests/cpu "100m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request; init container 0: cpu capped to the sum of the other containers, cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with an init container that a LimitRange would refuse: it keeps its size": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 100), "setup": cluster.Resources{}.Set(cluster.CPU, 900)}),
			options:    Options{InitContainers: true},
			limits:     policy.Limits{Range: cluster.LimitRange{ContainerRatio: cluster.Resources{}.Set(cluster.CPU, 2000)}},
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"setup","resources":{"requests":{"cpu":"10m"},"limits":{"cpu":"20m"}}}],
				"containers":[{"name":"app","resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "100m"`,
				`/spec/containers/0/resources/limits/cpu "100m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with an init container that a quota would refuse: all of them keep their sizes": {
			autoscaler: recommending("cart", killedInit),
			options:    Options{InitContainers: true},
			limits:     memoryLeft(mi(499)),
			pod:        cart(`"annotations":{}`, twoInit),
			ops: []string{
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with init containers for which a quota has room": {
			autoscaler: recommending("cart", killedInit),
			options:    Options{InitContainers: true},
			limits:     memoryLeft(mi(500)),
			pod:        cart(`"annotations":{}`, twoInit),
			ops: []string{
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/spec/initContainers/0/resources/requests/memory "80Mi"`,
				`/spec/initContainers/1/resources/requests/memory "500Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory request; init container 0: memory request; init container 1: memory request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with an init container after a sidecar: a quota has room for the new sizes of all, and not beside the own size of the init container": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"mesh": memory(400), "first": memory(50)}),
			options:    Options{InitContainers: true},
			limits:     memoryLeft(mi(1000)),
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"mesh","restartPolicy":"Always","resources":{"requests":{"memory":"100Mi"}}},
				{"name":"first","resources":{"requests":{"memory":"800Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"memory":"100Mi"}}}]`),
			ops: []string{
				`/spec/initContainers/0/resources/requests/memory "400Mi"`,
				`/spec/initContainers/1/resources/requests/memory "50Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: init container 0: memory request; init container 1: memory request"`,
				`/metadata/annotations/vpaObservedContainers "app, mesh"`,
			},
		},
		"with init containers that a quota refuses with any size": {
			autoscaler: recommending("cart", killedInit),
			options:    Options{InitContainers: true},
			limits:     memoryLeft(mi(199)),
			pod:        cart(`"annotations":{}`, twoInit),
			ops: []string{
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/spec/initContainers/0/resources/requests/memory "80Mi"`,
				`/spec/initContainers/1/resources/requests/memory "500Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory request; init container 0: memory request; init container 1: memory request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with an init container whose limit a quota would refuse: it keeps its size": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 100), "setup": cluster.Resources{}.Set(cluster.CPU, 100)}),
			options:    Options{InitContainers: true},
			limits:     policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: cluster.PodResources{Limits: cluster.Resources{}.Set(cluster.CPU, 199)}}}}},
			pod: cart(`"annotations":{}`, `"initContainers":[{"name":"setup","resources":{"requests":{"cpu":"10m"},"limits":{"cpu":"20m"}}}],
				"containers":[{"name":"app","resources":{"requests":{"cpu":"150m"},"limits":{"cpu":"150m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "100m"`,
				`/spec/containers/0/resources/limits/cpu "100m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with init containers and a startup boost for which a quota has room, and not for the init containers": {
			autoscaler: boosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(300, mi(100)), "first": killedInit["first"], "second": killedInit["second"]}), 3),
			options:    Options{Gates: Gates{CPUStartupBoost: true}, InitContainers: true},
			limits:     memoryLeft(mi(499)),
			pod:        cart(`"annotations":{}`, strings.Replace(twoInit, `{"memory":"200Mi"}`, `{"cpu":"100m","memory":"200Mi"}`, 1)),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"200Mi\"},\"limits\":{}}"`,
				`/spec/containers/0/resources/requests/cpu "900m"`,
				`/spec/containers/0/resources/requests/memory "100Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request, memory request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with claims: they are kept": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 100)}),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"claims":[{"name":"gpu"}]}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests {}`,
				`/spec/containers/0/resources/requests/cpu "100m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"without a recommendation": {
			autoscaler: recommending("cart", nil),
			pod:        cart("", `"containers":[{"name":"app"}]`),
			ops:        []string{`/metadata/annotations {}`, `/metadata/annotations/vpaObservedContainers "app"`},
		},
		"in a namespace with a limit range": {
			autoscaler: recommending("cart", app),
			limits:     policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Max: cluster.Resources{}.Set(cluster.CPU, 400)}}},
			pod: cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{
				"requests":{"cpu":"100m"},"limits":{"cpu":"200m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "200m"`,
				`/spec/containers/0/resources/requests/memory "745Mi"`,
				`/spec/containers/0/resources/limits/cpu "400m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu capped to fit Max in container LimitRange, ` +
					`memory: limit NOT set since originalLimit is nil or 0, cpu request, memory request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with pod-level resources: they are changed, too": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900)}),
			pod: cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"500m"},"limits":{"cpu":"1"}},
				"containers":[{"name":"app","resources":{"requests":{"cpu":"500m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "900m"`,
				`/spec/resources/requests/cpu "900m"`,
				`/spec/resources/limits/cpu "1800m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request; pod: cpu request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with pod-level resources that its containers share: they get their parts": {
			autoscaler: sharing(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900), "cache": cluster.Resources{}.Set(cluster.CPU, 900)}), 600),
			pod:        cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"2"}},"containers":[{"name":"app"},{"name":"cache"}]`),
			ops: []string{
				`/spec/containers/0/resources {}`,
				`/spec/containers/0/resources/requests {}`,
				`/spec/containers/0/resources/requests/cpu "600m"`,
				`/spec/containers/1/resources {}`,
				`/spec/containers/1/resources/requests {}`,
				`/spec/containers/1/resources/requests/cpu "600m"`,
				`/spec/resources/requests/cpu "1200m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request; container 1: cpu request; pod: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app, cache"`,
			},
		},
		"above its pod-level limit with the new size: it is not changed": {
			autoscaler: requestsOnly(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900)})),
			pod: cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}},
				"containers":[{"name":"app"},{"name":"proxy","resources":{"requests":{"cpu":"300m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaUpdates "Pod resources NOT updated by cart: ` +
					`the API server would refuse the pod: the cpu request 301m of the pod is above its limit 300m"`,
				`/metadata/annotations/vpaObservedContainers "app, proxy"`,
			},
		},
		"over a quota with the new size: it is not changed": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900)}),
			limits:     cpuLeft(800),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"500m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaUpdates "Pod resources NOT updated by cart: the API server would refuse the pod: ` +
					`the cpu requests of the pod are 900m, and ResourceQuota compute has 800m left"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"over a quota with any size": {
			autoscaler: recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900)}),
			limits:     cpuLeft(400),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"500m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "900m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"over a quota only with its startup boost": {
			autoscaler: boosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)}), 3),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			limits:     cpuLeft(800),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "300m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request; startup boost NOT applied: the API server would refuse the pod: the cpu requests of the pod are 900m, and ResourceQuota compute has 800m left"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a startup boost above the maximum of a limit range": {
			autoscaler: boosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)}), 3),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			limits:     policy.Limits{Range: cluster.LimitRange{Container: cluster.Range{Max: cluster.Resources{}.Set(cluster.CPU, 400)}}},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"100m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\"},\"limits\":{\"cpu\":\"100m\"}}"`,
				`/spec/containers/0/resources/requests/cpu "400m"`,
				`/spec/containers/0/resources/limits/cpu "400m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: ` +
					`memory: limit NOT set since originalLimit is nil or 0, cpu capped to what the API server admits, cpu request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a startup boost": {
			autoscaler: boosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)}), 3),
			options:    Options{Gates: Gates{CPUStartupBoost: true}, MaxCPUBoost: 800},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"100m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"1Gi\"},\"limits\":{\"cpu\":\"100m\"}}"`,
				`/spec/containers/0/resources/requests/cpu "800m"`,
				`/spec/containers/0/resources/limits/cpu "800m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory: limit NOT set since originalLimit is nil or 0, cpu request, cpu limit"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a learnt startup boost": {
			autoscaler: learnt(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)})),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\",\"memory\":\"1Gi\"},\"limits\":{}}"`,
				`/spec/containers/0/resources/requests/cpu "750m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a learnt startup boost and a configured one": {
			autoscaler: boosted(learnt(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)})), 2),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\"},\"limits\":{}}"`,
				`/spec/containers/0/resources/requests/cpu "600m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a learnt startup boost over a quota: it gets the recommendation": {
			autoscaler: learnt(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)})),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			limits:     cpuLeft(700),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "300m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request; startup boost NOT applied: the API server would refuse the pod: the cpu requests of the pod are 750m, and ResourceQuota compute has 700m left"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a learnt startup boost without its feature gate": {
			autoscaler: learnt(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 300)})),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources/requests/cpu "300m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a startup boost, of an autoscaler that is Off": {
			autoscaler: off(boosted(recommending("cart", app), 3)),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\"},\"limits\":{}}"`,
				`/spec/containers/0/resources/requests/cpu "300m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request"`,
				`/metadata/annotations/vpaObservedContainers "app"`,
			},
		},
		"with a startup boost that the API server would reject, and a recommendation that it would admit": {
			autoscaler: appBoosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.Memory, mi(745))})),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod: cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}},
				"containers":[{"name":"app"},{"name":"proxy","resources":{"requests":{"cpu":"300m"}}}]`),
			ops: []string{
				`/spec/containers/0/resources {}`,
				`/spec/containers/0/resources/requests {}`,
				`/spec/containers/0/resources/requests/memory "745Mi"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: memory request; startup boost NOT applied: ` +
					`the API server would refuse the pod: the cpu request 301m of the pod is above its limit 300m"`,
				`/metadata/annotations/vpaObservedContainers "app, proxy"`,
			},
		},
		"with a startup boost that the API server would reject, of an autoscaler that is Off": {
			autoscaler: off(appBoosted(recommending("cart", app))),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod: cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}},
				"containers":[{"name":"app"},{"name":"proxy","resources":{"requests":{"cpu":"300m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaUpdates "Startup boost NOT applied by cart: the API server would refuse the pod: the cpu request 301m of the pod is above its limit 300m"`,
				`/metadata/annotations/vpaObservedContainers "app, proxy"`,
			},
		},
		"with a recommendation and a startup boost that the API server would both reject": {
			autoscaler: appBoosted(recommending("cart", map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, 900)})),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod: cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}},
				"containers":[{"name":"app"},{"name":"proxy","resources":{"requests":{"cpu":"300m"}}}]`),
			ops: []string{
				`/metadata/annotations/vpaUpdates "Pod resources NOT updated by cart: ` +
					`the API server would refuse the pod: the cpu request 301m of the pod is above its limit 300m; startup boost NOT applied: ` +
					`the API server would refuse the pod: the cpu request 301m of the pod is above its limit 300m"`,
				`/metadata/annotations/vpaObservedContainers "app, proxy"`,
			},
		},
		"with a startup boost whose factor multiplies nothing": {
			autoscaler: off(boosted(recommending("cart", nil), 3)),
			options:    Options{Gates: Gates{CPUStartupBoost: true}},
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}},{"name":"proxy"}]`),
			ops: []string{
				`/metadata/annotations/vpaCpuStartupBoost~1app "{\"requests\":{\"cpu\":\"100m\"},\"limits\":{}}"`,
				`/spec/containers/0/resources/requests/cpu "300m"`,
				`/metadata/annotations/vpaUpdates "Pod resources updated by cart: container 0: cpu request; ` +
					`startup boost NOT applied to container proxy: a factor needs a CPU request or a recommendation"`,
				`/metadata/annotations/vpaObservedContainers "app, proxy"`,
			},
		},
		"with a startup boost without its feature gate": {
			autoscaler: off(boosted(recommending("cart", app), 3)),
			pod:        cart(`"annotations":{}`, `"containers":[{"name":"app","resources":{"requests":{"cpu":"100m"}}}]`),
			ops:        []string{`/metadata/annotations/vpaObservedContainers "app"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(c.autoscaler)
			w.limits["shop"] = c.limits
			response := ask(t, handler(w, c.options), createRequest(c.pod))
			if !response.Allowed || response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
				t.Fatalf("response %+v", response)
			}
			if diff := cmp.Diff(c.ops, patchLines(t, response.Patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			apply(t, c.pod, response.Patch)
		})
	}
}

func TestHandler_learntBoostInModeOff_changesNothing(t *testing.T) {
	a := off(learnt(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(300, mi(200))})))
	response := ask(t, handler(worldOf(a), Options{Gates: Gates{CPUStartupBoost: true}}), createRequest(cart("", `"containers":[{"name":"app"}]`)))
	if !response.Allowed || response.Patch != nil {
		t.Errorf("response %+v", response)
	}
}

func TestHandler_rejectedStartupBoost_isLogged(t *testing.T) {
	var out bytes.Buffer
	w := worldOf(off(appBoosted(recommending("cart", nil))))
	h := NewHandler(w, Options{Gates: Gates{CPUStartupBoost: true}}, NewMetrics(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&out, nil)))
	ask(t, h, createRequest(cart(`"annotations":{}`, `"resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"300m"}},
		"containers":[{"name":"app"},{"name":"proxy","resources":{"requests":{"cpu":"300m"}}}]`)))
	for _, part := range []string{"Startup boost not applied", "pod=shop/cart-*", "vpa=shop/cart", "cpu request 301m of the pod is above its limit 300m"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in the log:\n%s", part, out.String())
		}
	}
}

// sharing gives each container a part of what a pod needs as a whole.
func sharing(a *cluster.Autoscaler, millicores int64) *cluster.Autoscaler {
	for i := range a.Advice {
		a.Advice[i].Shared = cluster.Resources{}.Set(cluster.CPU, millicores)
	}
	return a
}

func requestsOnly(a *cluster.Autoscaler) *cluster.Autoscaler {
	a.Policies = []cluster.ContainerPolicy{{Container: "*", RequestsOnly: true}}
	return a
}

// appBoosted adds a startup boost of 600m for the request of the container app only.
func appBoosted(a *cluster.Autoscaler) *cluster.Autoscaler {
	a.Policies = []cluster.ContainerPolicy{{Container: "app", RequestsOnly: true, Boost: &cluster.Boost{ByQuantity: true, Quantity: 600}}}
	return a
}

func boosted(a *cluster.Autoscaler, factor int32) *cluster.Autoscaler {
	a.Boost = &cluster.Boost{Factor: factor}
	return a
}

// learnt adds a learnt startup boost of 2.5 to all containers with a recommendation.
func learnt(a *cluster.Autoscaler) *cluster.Autoscaler {
	a.Learning = cluster.BoostLearning{On: true, MaxPercent: 400, MaxDuration: 10 * time.Minute}
	for i := range a.Advice {
		a.Advice[i].Learnt = cluster.LearntBoost{Percent: 250, Starts: 5, Duration: 2 * time.Minute}
	}
	return a
}

func off(a *cluster.Autoscaler) *cluster.Autoscaler {
	a.Mode = cluster.Off
	return a
}

// patchLines returns the operations of a JSON patch, each as "path value".
func patchLines(t *testing.T, patch []byte) []string {
	t.Helper()
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(patch, &ops); err != nil {
		t.Fatalf("patch %s: %v", patch, err)
	}
	var out []string
	for _, o := range ops {
		if o.Op != "add" {
			t.Errorf("operation %q, want only add", o.Op)
		}
		out = append(out, o.Path+" "+string(o.Value))
	}
	return out
}

// apply applies a patch to a pod as the API server does.
func apply(t *testing.T, pod string, patch []byte) map[string]any {
	t.Helper()
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	after, err := p.Apply([]byte(pod))
	if err != nil {
		t.Fatalf("apply %s: %v", patch, err)
	}
	var out map[string]any
	if err := json.Unmarshal(after, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestHandler_patchedPod_keepsOtherFields(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})), Options{})
	pod := cart(`"labels":{"x":"y"}`, `"nodeSelector":{"a":"b"},"containers":[{"name":"app","image":"i",
		"resources":{"requests":{"nvidia.com/gpu":"1","cpu":"2"},"claims":[{"name":"c"}]},"unknownField":7}]`)
	got := apply(t, pod, ask(t, h, createRequest(pod)).Patch)
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"cart-",`+owned+`,"labels":{"x":"y"},
		"annotations":{"vpaObservedContainers":"app","vpaUpdates":"Pod resources updated by cart: container 0: cpu request, memory request"}},
		"spec":{"nodeSelector":{"a":"b"},"containers":[{"name":"app","image":"i",
		"resources":{"requests":{"nvidia.com/gpu":"1","cpu":"100m","memory":"200Mi"},"claims":[{"name":"c"}]},"unknownField":7}]}}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("patched pod (-want +got):\n%s", diff)
	}
}

func TestHandler_samePod_getsTheSamePatch(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"a": cluster.Amounts(100, mi(1)), "b": cluster.Amounts(200, mi(2)), "c": cluster.Amounts(300, mi(3))})), Options{})
	pod := cart("", `"containers":[{"name":"c"},{"name":"b"},{"name":"a"}]`)
	first := ask(t, h, createRequest(pod)).Patch
	for range 50 {
		if again := ask(t, h, createRequest(pod)).Patch; string(again) != string(first) {
			t.Fatalf("first %s\nthen  %s", first, again)
		}
	}
}

func TestHandler_podWithoutGoverningAutoscaler_isAdmittedUnchanged(t *testing.T) {
	one := recommending("cart", map[string]cluster.Resources{"app": cluster.Amounts(100, mi(200))})
	containers := `"containers":[{"name":"app"}]`
	for name, c := range map[string]struct {
		world  fakeWorld
		change func(*admissionv1.AdmissionRequest)
	}{
		"of a workload without an autoscaler": {world: worldOf()},
		"of an autoscaler that is Off":        {world: worldOf(off(recommending("cart", nil)))},
		"without an owner": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) {
			r.Object = runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"cart"},"spec":{` + containers + `}}`)}
		}},
		"of another namespace": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) { r.Namespace = "other" }},
		"that is updated":      {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }},
		"in a subresource":     {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) { r.SubResource = "eviction" }},
		"with invalid metadata": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) {
			r.Object = runtime.RawExtension{Raw: []byte(`{"metadata":[]}`)}
		}},
		"with an invalid quantity": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) {
			r.Object = runtime.RawExtension{Raw: []byte(cart("", `"containers":[{"name":"app","resources":{"requests":{"cpu":"lots"}}}]`))}
		}},
		"without an object": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) { r.Object = runtime.RawExtension{} }},
		"of another resource": {world: worldOf(one), change: func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group = "apps"
			r.Resource.Resource = "deployments"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			request := createRequest(cart("", containers))
			if c.change != nil {
				c.change(request)
			}
			response := ask(t, handler(c.world, Options{}), request)
			if !response.Allowed || len(response.Patch) > 0 || response.PatchType != nil {
				t.Errorf("response %+v", response)
			}
		})
	}
}

func TestHandler_severalAutoscalers_oldestThatIsNotOffGoverns(t *testing.T) {
	as := func(name string, age time.Duration, mode cluster.Mode, cpu int64) *cluster.Autoscaler {
		a := recommending(name, map[string]cluster.Resources{"app": cluster.Resources{}.Set(cluster.CPU, cpu)})
		a.Created = a.Created.Add(-age)
		a.Mode = mode
		return a
	}
	w := worldOf(as("young", time.Hour, cluster.Recreate, 1), as("oldest", 9*time.Hour, cluster.Off, 2),
		as("twin", 5*time.Hour, cluster.Initial, 3), as("older", 5*time.Hour, cluster.Initial, 4))
	patch := string(ask(t, handler(w, Options{}), createRequest(cart("", `"containers":[{"name":"app"}]`))).Patch)
	if !strings.Contains(patch, "updated by older:") || !strings.Contains(patch, `"4m"`) {
		t.Errorf("patch %s", patch)
	}
}

func TestHandler_panic_admitsThePod(t *testing.T) {
	var j logBuffer
	h := handler(nil, Options{}) // a nil world: the first lookup panics
	h.log = j.logger()
	response := ask(t, h, createRequest(cart("", `"containers":[{"name":"app"}]`)))
	if !response.Allowed || response.Patch != nil {
		t.Errorf("response %+v", response)
	}
	if !j.has("Admission review panicked") {
		t.Errorf("log %s", j.String())
	}
}

// cpuLeft returns the limits of a namespace whose quota has the given millicores of requests left.
func cpuLeft(millicores int64) policy.Limits {
	left := cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.CPU, millicores)}
	return policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "compute", Left: left}}}}
}

// memoryLeft returns limits with a quota that has a remaining amount of requests.memory.
func memoryLeft(bytes int64) policy.Limits {
	left := cluster.PodResources{Requests: cluster.Resources{}.Set(cluster.Memory, bytes)}
	return policy.Limits{Quotas: &cluster.Quotas{List: []cluster.Quota{{Name: "memory", Left: left}}}}
}

// A placeholder pod of podfit keeps its exact size: the pod that owns it is not its controller.
func TestHandler_placeholderPod_keepsItsSize(t *testing.T) {
	h := handler(worldOf(recommending("cart", map[string]cluster.Resources{"pause": cluster.Amounts(350, mi(745))})), Options{})
	response := ask(t, h, createRequest(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"podfit-placeholder-1","labels":{"podfit.dev/placeholder":"true"},
		"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"cart-1","uid":"1"}]},"spec":{"containers":[{"name":"pause","resources":{"requests":{"cpu":"3"}}}]}}`))
	if !response.Allowed || len(response.Patch) != 0 {
		t.Errorf("allowed: %t, patch %s, want none", response.Allowed, response.Patch)
	}
}
