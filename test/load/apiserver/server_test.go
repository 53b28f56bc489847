// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	metricsclient "k8s.io/metrics/pkg/client/clientset/versioned"
)

var autoscalers = schema.GroupVersionResource{Group: "autoscaling.k8s.io", Version: "v1", Resource: "verticalpodautoscalers"}

// A fixture is a server with clients.
type fixture struct {
	*Server
	config   *rest.Config
	protobuf kubernetes.Interface
	json     kubernetes.Interface
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

func start(t *testing.T, o Options) *fixture {
	t.Helper()
	s := Start(o)
	t.Cleanup(s.Stop)
	config := &rest.Config{Host: s.URL(), QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, UserAgent: "podfit/recommender v1"}
	f := &fixture{Server: s, config: config}
	builtin := rest.CopyConfig(config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	f.protobuf = kubernetes.NewForConfigOrDie(builtin)
	f.json = kubernetes.NewForConfigOrDie(config)
	f.metadata = metadata.NewForConfigOrDie(config)
	f.dynamic = dynamic.NewForConfigOrDie(config)
	return f
}

// pods stores n pods in the namespace shop.
func (f *fixture) pods(n int) {
	for i := range n {
		f.Create("/pods", examplePod(fmt.Sprintf("web-%03d", i)))
	}
}

func examplePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}},
			{Name: "proxy"},
		}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Now().Add(-time.Hour)}},
	}
}

func TestServer_protobufAndJSON_haveTheSameContent(t *testing.T) {
	f := start(t, Options{})
	want := examplePod("web-0")
	made, err := f.protobuf.CoreV1().Pods("shop").Create(t.Context(), want, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inProtobuf, err := f.protobuf.CoreV1().Pods("shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := f.json.CoreV1().Pods("shop").Get(t.Context(), "web-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inJSON.TypeMeta, inProtobuf.TypeMeta, made.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}, metav1.TypeMeta{}
	if !equality.Semantic.DeepEqual(inProtobuf, inJSON) || !equality.Semantic.DeepEqual(made, inJSON) || !equality.Semantic.DeepEqual(inJSON.Spec, want.Spec) {
		t.Errorf("protobuf %v\nJSON %v\nmade %v", inProtobuf, inJSON, made)
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	partial, err := f.metadata.Resource(pods).Namespace("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(partial.Items) != 1 || !equality.Semantic.DeepEqual(partial.Items[0].ObjectMeta, inJSON.ObjectMeta) {
		t.Errorf("metadata %v, error %v", partial, err)
	}
	list, err := f.json.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "status.phase=Running,spec.nodeName=node-1"})
	if err != nil || len(list.Items) != 1 || !equality.Semantic.DeepEqual(list.Items[0].Spec, inJSON.Spec) {
		t.Errorf("list %v, error %v", list, err)
	}
}

func TestServer_listInPages_isASnapshot(t *testing.T) {
	f := start(t, Options{SnapshotTTL: time.Second})
	f.pods(25)
	var names []string
	o := metav1.ListOptions{Limit: 10}
	version := ""
	for {
		page, err := f.protobuf.CoreV1().Pods("").List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if version == "" {
			version = page.ResourceVersion
			if page.RemainingItemCount == nil || *page.RemainingItemCount != 15 {
				t.Errorf("remaining items: %v, want 15", page.RemainingItemCount)
			}
			f.Delete("/pods", "shop", "web-024")
			f.Create("/pods", examplePod("web-999"))
		}
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		if page.ResourceVersion != version {
			t.Errorf("version %s, want %s", page.ResourceVersion, version)
		}
		if o.Continue = page.Continue; o.Continue == "" {
			break
		}
	}
	if len(names) != 25 || names[24] != "web-024" {
		t.Errorf("%d names, the last one %s", len(names), names[len(names)-1])
	}
	page, err := f.protobuf.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond)
	if _, err := f.protobuf.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{Limit: 10, Continue: page.Continue}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error of an expired token: %v", err)
	}
}

// next returns the next event of a watch that is not a bookmark.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				t.Fatal("the watch has ended")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-limit:
			t.Fatal("no event")
		}
	}
}

func TestServer_watchFromVersion_getsLaterEvents(t *testing.T) {
	f := start(t, Options{Bookmarks: 50 * time.Millisecond})
	f.pods(2)
	for name, client := range map[string]kubernetes.Interface{"protobuf": f.protobuf, "JSON": f.json} {
		list, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.Create("/pods", examplePod("later"))
		w, err := client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: list.ResourceVersion, FieldSelector: "status.phase=Running", AllowWatchBookmarks: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Modify("/pods", "shop", "later", func(m Message) { m.SetLabels(map[string]string{"app": "db"}) })
		f.Modify("/pods", "shop", "later", func(m Message) { m.(*corev1.Pod).Status.Phase = corev1.PodFailed })
		f.Delete("/pods", "shop", "later")
		for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
			e := next(t, w)
			if p, ok := e.Object.(*corev1.Pod); !ok || e.Type != want || p.Name != "later" || len(p.Spec.Containers) != 2 {
				t.Errorf("%s: event %s %v, want %s", name, e.Type, e.Object, want)
			}
		}
		select {
		case e := <-w.ResultChan():
			if e.Type != watch.Bookmark || e.Object.(*corev1.Pod).ResourceVersion <= list.ResourceVersion {
				t.Errorf("%s: event %s %v, want a bookmark", name, e.Type, e.Object)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: no bookmark", name)
		}
		w.Stop()
	}
}

func TestServer_watchFromExpiredVersion_isGone(t *testing.T) {
	f := start(t, Options{Events: 5})
	f.pods(1)
	list, err := f.json.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		f.Modify("/pods", "shop", "web-000", func(m Message) { m.SetAnnotations(map[string]string{"n": fmt.Sprint(i)}) })
	}
	if w, err := f.protobuf.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); !apierrors.IsResourceExpired(err) {
		t.Errorf("watch %v, error %v", w, err)
	}
}

// A reflector of client-go asks for a streamed list, and for pages if there is none.
func TestServer_reflectors_seeAllObjectsAndChanges(t *testing.T) {
	f := start(t, Options{})
	f.pods(30)
	f.CreateCustom("autoscaling.k8s.io/verticalpodautoscalers", map[string]any{"metadata": map[string]any{"namespace": "shop", "name": "web"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	podStore := cache.NewStore(cache.MetaNamespaceKeyFunc)
	podsOf := f.protobuf.CoreV1().Pods("")
	go cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return podsOf.List(ctx, o) },
		WatchFuncWithContext: podsOf.Watch,
	}, &corev1.Pod{}, podStore, cache.ReflectorOptions{}).RunWithContext(ctx)
	partialStore := cache.NewStore(cache.MetaNamespaceKeyFunc)
	partial := f.metadata.Resource(autoscalers)
	go cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return partial.List(ctx, o) },
		WatchFuncWithContext: partial.Watch,
	}, &metav1.PartialObjectMetadata{}, partialStore, cache.ReflectorOptions{}).RunWithContext(ctx)
	eventually(t, func() bool { return len(podStore.List()) == 30 && len(partialStore.List()) == 1 })
	f.Delete("/pods", "shop", "web-007")
	f.Delete("autoscaling.k8s.io/verticalpodautoscalers", "shop", "web")
	eventually(t, func() bool { return len(podStore.List()) == 29 && len(partialStore.List()) == 0 })
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the condition does not hold after 10 s")
		}
	}
}

func TestServer_patchTypes_changeObjects(t *testing.T) {
	f := start(t, Options{})
	f.pods(1)
	pods := f.protobuf.CoreV1().Pods("shop")
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"test","path":"/metadata/labels/app","value":"web"},{"op":"add","path":"/metadata/labels/json","value":"1"}]`,
		types.MergePatchType:          `{"metadata":{"labels":{"merge":"1"}}}`,
		types.StrategicMergePatchType: `{"spec":{"containers":[{"name":"proxy","image":"proxy:2"}]}}`,
		types.ApplyYAMLPatchType:      "metadata:\n  labels:\n    apply: \"1\"\n",
	} {
		o := metav1.PatchOptions{}
		if kind == types.ApplyYAMLPatchType {
			o.FieldManager = "test"
		}
		if _, err := pods.Patch(t.Context(), "web-000", kind, []byte(patch), o); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	p, err := pods.Get(t.Context(), "web-000", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l := p.Labels; l["app"] != "web" || l["json"] != "1" || l["merge"] != "1" || l["apply"] != "1" {
		t.Errorf("labels %v", l)
	}
	if c := p.Spec.Containers; len(c) != 2 || c[1].Image != "proxy:2" || c[0].Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("containers %v", c)
	}
	if _, err := pods.Patch(t.Context(), "web-000", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/labels/app","value":"db"}]`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("error of a failed test: %v", err)
	}
	if _, err := pods.Patch(t.Context(), "web-000", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1","labels":{"x":"y"}}}`), metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("error of an old version: %v", err)
	}
	same, err := pods.Patch(t.Context(), "web-000", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`), metav1.PatchOptions{})
	if err != nil || same.ResourceVersion != p.ResourceVersion {
		t.Errorf("a patch without a change makes version %s of %s, error %v", same.ResourceVersion, p.ResourceVersion, err)
	}
}

func TestServer_statusOfCustomResource_isChangedAlone(t *testing.T) {
	f := start(t, Options{})
	f.CreateCustom("autoscaling.k8s.io/verticalpodautoscalers", map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": map[string]any{"a": 1.0},
	})
	vpas := f.dynamic.Resource(autoscalers).Namespace("shop")
	patch := []byte(`{"spec":{"a":2},"status":{"b":3}}`)
	o, err := vpas.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil || fmt.Sprint(o.Object["spec"], o.Object["status"], o.GetGeneration()) != "map[a:1] map[b:3] 1" {
		t.Errorf("after a patch of the status: %v, error %v", o, err)
	}
	o, err = vpas.Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"a":2},"status":{"b":4}}`), metav1.PatchOptions{})
	if err != nil || fmt.Sprint(o.Object["spec"], o.Object["status"], o.GetGeneration()) != "map[a:2] map[b:3] 2" {
		t.Errorf("after a patch of the object: %v, error %v", o, err)
	}
	if _, err := vpas.Patch(t.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("error of a strategic merge patch: %v", err)
	}
}

func TestServer_scaleEvictionAndResize_changeObjects(t *testing.T) {
	var evicted, resized []string
	f := start(t, Options{
		Evicted: func(o *Object) { evicted = append(evicted, o.Name) }, Resized: func(o *Object) { resized = append(resized, o.Name) },
	})
	f.pods(2)
	pods := f.protobuf.CoreV1().Pods("shop")
	wrong := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-000"}, DeleteOptions: metav1.NewPreconditionDeleteOptions("other")}
	if err := pods.EvictV1(t.Context(), wrong); !apierrors.IsConflict(err) {
		t.Errorf("error of an eviction with another UID: %v", err)
	}
	uid := f.Get("/pods", "shop", "web-000").UID
	if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: wrong.ObjectMeta, DeleteOptions: metav1.NewPreconditionDeleteOptions(uid)}); err != nil {
		t.Error(err)
	}
	p, err := pods.Patch(t.Context(), "web-001", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"200m"}}}]}}`), metav1.PatchOptions{}, "resize")
	if err != nil || p.Labels["app"] != "web" || p.Spec.Containers[0].Resources.Requests.Cpu().String() != "200m" {
		t.Errorf("resized pod %v, error %v", p, err)
	}
	if !reflect.DeepEqual(evicted, []string{"web-000"}) || !reflect.DeepEqual(resized, []string{"web-001"}) || f.Get("/pods", "shop", "web-000") != nil {
		t.Errorf("evicted %v, resized %v", evicted, resized)
	}
	f.Create("apps/deployments", &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	scale, err := f.protobuf.AppsV1().Deployments("shop").GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 3 || scale.Status.Selector != "app=web" {
		t.Errorf("scale %v, error %v", scale, err)
	}
}

func TestServer_reviewsDiscoveryAndMetrics_areServed(t *testing.T) {
	f := start(t, Options{Usage: func(_ *Object, container int, _ time.Time) (nanocores, bytes int64) {
		return int64(container+1) * 1e8, 1 << 20
	}})
	f.pods(2)
	review, err := f.protobuf.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
	if err != nil || !review.Status.Allowed {
		t.Errorf("review %v, error %v", review, err)
	}
	_, lists, err := f.protobuf.Discovery().ServerGroupsAndResources()
	if err != nil || len(lists) < 10 {
		t.Errorf("%d lists of resources, error %v", len(lists), err)
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := rest.CopyConfig(f.config)
		config.AcceptContentTypes = contentType
		usage, err := metricsclient.NewForConfigOrDie(config).MetricsV1beta1().PodMetricses("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(usage.Items) != 2 || usage.Items[0].Containers[1].Usage.Cpu().String() != "200m" {
			t.Errorf("%s: usage %v, error %v", contentType, usage, err)
		}
	}
}

func TestServer_requests_areCounted(t *testing.T) {
	f := start(t, Options{})
	f.pods(1)
	body := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	_, err := f.protobuf.CoreV1().Pods("shop").Patch(t.Context(), "web-000", types.MergePatchType, body, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.protobuf.CoreV1().Pods("shop").Get(t.Context(), "none", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	counts := f.Counts()
	if n := counts[Request{"podfit/recommender", "patch", "pods"}]; n.Requests != 1 || n.Failed != 0 || n.Received != int64(len(body)) || n.Sent == 0 {
		t.Errorf("patches: %+v", n)
	}
	if n := counts[Request{"podfit/recommender", "get", "pods"}]; n.Requests != 1 || n.Failed != 1 {
		t.Errorf("reads: %+v", n)
	}
	if requests, bytes := counts.Writes(); requests != 1 || bytes != int64(len(body)) {
		t.Errorf("%d writes, %d bytes", requests, bytes)
	}
}

// A large list is compressed for clients that accept it.
func TestServer_largeList_isCompressed(t *testing.T) {
	f := start(t, Options{})
	f.pods(1000)
	client, err := rest.HTTPClientFor(f.config)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+"/api/v1/pods", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list corev1.PodList
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || len(list.Items) != 1000 || !response.Uncompressed {
		t.Errorf("%d pods, compressed %t, error %v", len(list.Items), response.Uncompressed, err)
	}
}

func TestServer_watchesThatAreCutOrExpired_endAndAreGone(t *testing.T) {
	f := start(t, Options{})
	f.pods(1)
	list, err := f.protobuf.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	open := func() watch.Interface {
		w, err := f.protobuf.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		f.Modify("/pods", "shop", "web-000", func(m Message) { m.SetLabels(map[string]string{"at": time.Now().Format(time.RFC3339Nano)}) })
		next(t, w) // the server follows it
		return w
	}
	cut := open()
	f.CutWatches()
	for range cut.ResultChan() { // until it ends
	}
	gone := open()
	f.ExpireWatches()
	for e := next(t, gone); e.Type != watch.Error; e = next(t, gone) {
	}
	if _, err := f.protobuf.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error of a watch from an expired version: %v", err)
	}
}

func TestServer_measuredTimes_areChangedOrLeftOut(t *testing.T) {
	then := time.Now().Add(-time.Hour).Truncate(time.Second)
	f := start(t, Options{
		Usage:    func(*Object, int, time.Time) (int64, int64) { return 1, 1 },
		Measured: func(pod *Object, _ time.Time) (time.Time, bool) { return then, pod.Name == "web-001" },
	})
	f.pods(3)
	usage, err := metricsclient.NewForConfigOrDie(f.config).MetricsV1beta1().PodMetricses("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(usage.Items) != 1 || !usage.Items[0].Timestamp.Time.Equal(then) {
		t.Errorf("usage %v, error %v", usage, err)
	}
}
