// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package behaviour

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/admission-controller/resource/pod/patch"
	vpav1 "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	vpaclient "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/clientset/versioned"
	vpalisters "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/client/listers/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/features"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/inplace"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/priority"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater/restriction"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
)

// Upstream logs its opinion of every pod in every pass.
func init() { klog.SetLogger(logr.Discard()) }

// must returns a value, and panics if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// upstream runs upstream's updater in a simulation. Upstream processes autoscalers in the random order of a map. Here the order is
// deterministic: each autoscaler has its own copy of the updater, and each pass starts with another copy. The copies share the rate
// limiters, as autoscalers do in upstream.
type upstream struct {
	updaters []logic.Updater // by workload
	passes   int
}

// upstreamTransport is the transport of upstream's client.
var upstreamTransport = new(connection)

var upstreamClient = sync.OnceValue(func() *kubernetes.Clientset {
	return must(kubernetes.NewForConfig(&rest.Config{Host: "http://simulation", Transport: upstreamTransport, QPS: -1}))
})

// original is an updater from upstream's constructor. The constructor starts goroutines that never end and lists autoscalers,
// which is not possible in a synctest bubble. So it is called once outside, and each simulation uses a copy with some fields
// replaced.
var original = sync.OnceValue(func() reflect.Value {
	if err := features.MutableFeatureGate.Set("InPlace=true,PerVPAConfig=true"); err != nil {
		panic(err)
	}
	config := &rest.Config{Host: "http://nowhere", Transport: emptyAPI{}, QPS: -1}
	client := must(kubernetes.NewForConfig(config))
	factory := informers.NewSharedInformerFactory(client, 0)
	u := must(logic.NewUpdater(client, must(vpaclient.NewForConfig(config)), factory, factory, 2, -1, 1, 0.5, false, false, 0.1, 12*time.Hour,
		10*time.Minute, "", "", time.Minute, nil, nil, nil, nil, priority.NewProcessor(), "", nil, nil))
	return reflect.ValueOf(u).Elem()
})

// emptyAPI is an API server without objects, for the constructor.
type emptyAPI struct{}

func (emptyAPI) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == http.MethodGet && q.URL.Query().Get("watch") == "" {
		return reply(q, &vpav1.VerticalPodAutoscalerList{
			TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling.k8s.io/v1", Kind: "VerticalPodAutoscalerList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		})
	}
	if q.URL.Query().Get("sendInitialEvents") != "" || q.Method != http.MethodGet {
		return reply(q, refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "no", ""))
	}
	r, _ := io.Pipe() // a watch without events
	return &http.Response{StatusCode: http.StatusOK, Request: q, Header: http.Header{"Content-Type": {"application/json"}}, Body: r}, nil
}

// setField sets an unexported field of upstream's updater.
func setField(updater reflect.Value, name string, value any) {
	f := updater.FieldByName(name)
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(value))
}

func newUpstream(s *simulation) *upstream {
	upstreamTransport.to = s
	w := s.world
	client := upstreamClient()
	factory := informers.NewSharedInformerFactory(client, 0)
	s.onScale = func(sw *simulated) {
		n := int32(sw.Replicas)
		kind, name := sw.controller()
		meta := metav1.ObjectMeta{Namespace: sw.namespace, Name: name}
		var err error
		if kind == "StatefulSet" {
			err = factory.Apps().V1().StatefulSets().Informer().GetStore().Add(&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &n}})
		} else {
			err = factory.Apps().V1().ReplicaSets().Informer().GetStore().Add(&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &n}})
		}
		if err != nil {
			panic(err)
		}
	}
	for _, sw := range s.workloads {
		s.onScale(sw)
	}
	calculators := []patch.Calculator{
		inplace.NewResourceInPlaceUpdatesCalculator(byNamespace{s}), inplace.NewInPlaceUpdatedCalculator(), inplace.NewUnboostAnnotationCalculator(),
	}
	limit, burst := rate.Inf, 0
	if w.Rate > 0 {
		limit, burst = rate.Limit(w.Rate/60), 1
	}
	evictions, resizes := rate.NewLimiter(limit, burst), rate.NewLimiter(limit, burst)
	restrictions := restriction.NewPodsRestrictionFactory(client, factory, w.Min, w.Tolerance, calculators, w.SkipBudget)
	out := new(upstream)
	for _, sw := range s.workloads {
		u := reflect.New(original().Type())
		u.Elem().Set(original())
		fields := u.Elem()
		setField(fields, "vpaLister", oneVPA{workload: sw})
		setField(fields, "podLister", podLister{sim: s, namespace: sw.namespace})
		setField(fields, "eventRecorder", &record.FakeRecorder{})
		setField(fields, "restrictionFactory", restrictions)
		setField(fields, "recommendationProcessor", sw.processor)
		setField(fields, "evictionAdmission", priority.NewScalingDirectionPodEvictionAdmission())
		setField(fields, "evictionRateLimiter", evictions)
		setField(fields, "inPlaceRateLimiter", resizes)
		setField(fields, "selectorFetcher", selectors{})
		setField(fields, "controllerFetcher", owners{})
		setField(fields, "infeasibleAttempts", map[types.UID]*vpav1.RecommendedPodResources{})
		out.updaters = append(out.updaters, u.Interface().(logic.Updater))
	}
	return out
}

// pass runs one pass of upstream.
func (u *upstream) pass(ctx context.Context) {
	for i := range u.updaters {
		u.updaters[(i+u.passes)%len(u.updaters)].RunOnce(ctx)
	}
	u.passes++
}

// oneVPA lists the autoscaler of a workload.
type oneVPA struct {
	vpalisters.VerticalPodAutoscalerLister
	workload *simulated
}

func (l oneVPA) List(labels.Selector) ([]*vpav1.VerticalPodAutoscaler, error) {
	return []*vpav1.VerticalPodAutoscaler{l.workload.vpa}, nil
}

// podLister lists the pods that upstream watches: pods with a node.
type podLister struct {
	listersv1.PodLister
	sim       *simulation
	namespace string
}

func (l podLister) List(labels.Selector) ([]*corev1.Pod, error) {
	return slices.DeleteFunc(slices.Clone(l.sim.watched()), func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.Namespace != l.namespace
	}), nil
}

// selectors finds the pods of a workload.
type selectors struct {
	target.VpaTargetSelectorFetcher
}

func (selectors) Fetch(_ context.Context, v *vpav1.VerticalPodAutoscaler) (labels.Selector, error) {
	return labels.SelectorFromSet(labels.Set{"app": v.Name}), nil
}

// owners returns the Deployment of a ReplicaSet.
type owners struct{}

func (owners) FindTopMostWellKnownOrScalable(_ context.Context, c *controllerfetcher.ControllerKeyWithAPIVersion) (*controllerfetcher.ControllerKeyWithAPIVersion, error) {
	if c.Kind != "ReplicaSet" {
		return c, nil
	}
	top := *c
	top.Kind, top.Name = "Deployment", string(bytes.TrimSuffix([]byte(c.Name), []byte("-rs")))
	return &top, nil
}

// byNamespace is upstream's recommendation provider, with the LimitRange of each namespace.
type byNamespace struct{ sim *simulation }

func (b byNamespace) GetContainersResourcesForPod(p *corev1.Pod, v *vpav1.VerticalPodAutoscaler) ([]vpautil.ContainerResources, vpautil.ContainerToAnnotationsMap, error) {
	return b.sim.workload(p.Namespace).provider.GetContainersResourcesForPod(p, v)
}
