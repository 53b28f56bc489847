// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet fills an API server with workloads whose usage moves, and does what controllers, the scheduler and kubelets do: it replaces
// pods that were evicted, and applies resizes. Everything but the order of requests follows from a seed.
package fleet

import (
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	vpa "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/test/load/apiserver"
)

// A Config is the size of a fleet.
type Config struct {
	Workloads int           // with one VPA each
	Pods      int           // of each workload
	Seed      uint64        // of names, sizes and usage
	History   time.Duration // for which a recommender has stored the usage in checkpoints; 0: there are none
	Varied    bool          // some VPAs name a profile, some another recommender, and old ReplicaSets are deleted
}

const (
	perNamespace = 20  // workloads
	perNode      = 100 // pods
	// Every fifth workload has a second container.
	sidecarEvery = 5
	// The least that is recommended for a pod, which its containers share.
	leastMillicores, leastBytes = 25, 250 << 20
	// The requests of this share of the workloads are far from their usage.
	wrong = 0.01
)

// Containers returns the number of containers of all pods.
func (c Config) Containers() int {
	withSidecar := (c.Workloads + sidecarEvery - 1) / sidecarEvery
	return (c.Workloads + withSidecar) * c.Pods
}

// A workload is a controller and its VPA.
type workload struct {
	namespace, name string
	kind            string // of the controller
	owner           string // the name of the controller of its pods: a ReplicaSet, StatefulSet or Job
	ownerKind       string
	sidecar         bool
	requests        []size // by container
	pods            int
	revision        int
	created         int // pods so far, for their names
	deleted         bool
	skewed          bool // the requests of its template are far from its usage
	scaled          bool // it has one more pod for a part of the day
}

// A size is an amount of CPU and memory.
type size struct {
	millicores, bytes int64
}

// A Fleet is the content of an API server.
type Fleet struct {
	Config
	// Admit changes a new pod as admission webhooks do. nil: pods are not changed.
	Admit func(*corev1.Pod) *corev1.Pod

	server  *apiserver.Server
	started time.Time
	jobs    chan func()
	done    sync.WaitGroup

	mu        sync.Mutex           // of the workloads
	workloads []*workload          // a workload that is replaced by another one has its position
	spaces    []string             // the names of the namespaces
	byName    map[string]*workload // by namespace/name
	nodes     int
	placed    int
	replaced  int
	created   int // containers of all workloads so far
}

// New returns a fleet without objects.
func New(c Config) *Fleet {
	return &Fleet{Config: c, started: time.Now(), jobs: make(chan func(), 1<<20), byName: make(map[string]*workload)}
}

// number returns a number in [0, 1) that follows from the seed, a name and an index.
func (f *Fleet) number(name string, index int64) float64 {
	h := fnv.New64a()
	var b [16]byte
	for i := range 8 {
		b[i] = byte(f.Seed >> (8 * i))
		b[8+i] = byte(uint64(index) >> (8 * i))
	}
	_, _ = h.Write(b[:]) // never fails
	_, _ = h.Write([]byte(name))
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return float64(x>>11) / (1 << 53)
}

// mean returns the usage around which a container moves. CPU is 20 to 800 millicores, and memory 64 MiB to 2 GiB.
func (f *Fleet) mean(app string, container int) (millicores, bytes float64) {
	if container > 0 {
		return 20, 64 << 20
	}
	return 20 * math.Pow(40, f.number(app, 1)), (64 << 20) * math.Pow(32, f.number(app, 2))
}

// Usage returns the usage of a container: it follows a wave of an hour for the whole workload, and noise of each pod.
func (f *Fleet) Usage(pod *apiserver.Object, container int, at time.Time) (nanocores, bytes int64) {
	app := pod.Labels["app"]
	millicores, memory := f.mean(app, container)
	wave := math.Sin(2 * math.Pi * (float64(at.Unix()%3600)/3600 + f.number(app, 3)))
	noise := f.number(pod.Name, at.Unix()*2+int64(container))
	return int64(millicores * 1e6 * (0.6 + 0.25*wave + 0.15*noise)), int64(memory * (0.85 + 0.08*wave + 0.05*noise))
}

// requestsOf returns requests that suit the usage, except those of some workloads, which are too large or too small.
func (f *Fleet) requestsOf(w *workload) []size {
	containers := 1
	if w.sidecar {
		containers = 2
	}
	out := make([]size, containers)
	for i := range out {
		millicores, bytes := f.mean(w.name, i)
		factor := 1.1 // of the highest usage
		switch n := f.number(w.name, 4); {
		case n < wrong/2:
			factor = 4
		case n < wrong:
			factor = 0.3
		}
		n := int64(containers)
		out[i] = size{max((leastMillicores+n-1)/n, int64(millicores*factor)), max(leastBytes/n, int64(bytes*factor*1.1))}
	}
	return out
}

// Fill creates all objects. Then the fleet answers evictions and resizes, until Stop.
func (f *Fleet) Fill(server *apiserver.Server) {
	f.server = server
	f.nodes = (f.Workloads*f.Pods*5/4)/perNode + 3
	for i := range f.nodes {
		server.Create("/nodes", node(i))
	}
	for _, ns := range []string{"kube-system", "default"} {
		server.Create("/namespaces", namespace(ns))
	}
	for i := range f.Workloads {
		f.add(i, 0)
	}
	f.done.Go(func() {
		for job := range f.jobs {
			job()
		}
	})
}

// Stop stops answering evictions and resizes. The server must be stopped.
func (f *Fleet) Stop() {
	close(f.jobs)
	f.done.Wait()
}

// add creates one workload, its pods and its VPA. Those of a later generation are new, and have other names and no history.
func (f *Fleet) add(i, generation int) {
	space := i / perNamespace
	if space == len(f.spaces) {
		f.spaces = append(f.spaces, generationOf(fmt.Sprintf("team-%04d", space), generation))
		f.addNamespace(f.spaces[space], space)
	}
	w := &workload{
		namespace: f.spaces[space], name: generationOf(fmt.Sprintf("app-%05d", i), generation), kind: "Deployment", sidecar: i%sidecarEvery == 0, pods: f.Pods,
	}
	switch i % 10 {
	case 7, 8:
		w.kind = "StatefulSet"
	case 9:
		w.kind = "CronJob"
	}
	w.requests = f.requestsOf(w)
	f.created += len(w.requests)
	if i == len(f.workloads) {
		f.workloads = append(f.workloads, nil)
	}
	f.workloads[i] = w
	f.byName[w.namespace+"/"+w.name] = w
	f.addController(w)
	f.addOwner(w)
	since := f.started.Add(-48 * time.Hour)
	if generation > 0 {
		since = time.Now()
	}
	f.addAutoscaler(i, since)
	for range w.pods {
		if generation == 0 {
			f.addPod(w, f.started.Add(-6*time.Hour), true)
		} else {
			f.addPod(w, since, false)
		}
	}
	for c, container := range containerNames[:len(w.requests)] {
		if f.History > 0 && generation == 0 {
			f.server.CreateCustom("autoscaling.k8s.io/verticalpodautoscalercheckpoints", f.checkpoint(w, c, container))
		}
	}
}

func generationOf(name string, generation int) string {
	if generation == 0 {
		return name
	}
	return fmt.Sprintf("%s-g%d", name, generation)
}

// Foreign is a recommender that does not run.
const Foreign = "other"

func (f *Fleet) foreign(i int) bool { return f.Varied && i%20 == 11 }

func (f *Fleet) profiled(i int) bool { return f.Varied && i%4 == 1 }

// addAutoscaler creates the VPA of a workload.
func (f *Fleet) addAutoscaler(i int, since time.Time) {
	v := f.autoscaler(f.workloads[i], since)
	switch {
	case f.foreign(i):
		v.Spec.Recommenders = []*vpa.VerticalPodAutoscalerRecommenderSelector{{Name: Foreign}}
	case f.profiled(i):
		v.Spec.Recommenders = []*vpa.VerticalPodAutoscalerRecommenderSelector{{Name: "balanced"}}
	}
	f.server.CreateCustom(autoscalers, v)
}

func (f *Fleet) addNamespace(name string, i int) {
	f.server.Create("/namespaces", namespace(name))
	if i%4 == 0 {
		f.server.Create("/limitranges", &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "limits"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: amounts(size{16000, 64 << 30}),
		}}}})
	}
	if i%4 == 1 {
		hard := amounts(size{int64(perNamespace*f.Pods) * 4000, int64(perNamespace*f.Pods) * (16 << 30)})
		hard = corev1.ResourceList{"requests.cpu": hard[corev1.ResourceCPU], "requests.memory": hard[corev1.ResourceMemory]}
		f.server.Create("/resourcequotas", &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
			Status: corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"requests.cpu": resource.MustParse("1"), "requests.memory": resource.MustParse("1Gi")}},
		})
	}
}

// addController creates the controller that the VPA targets, and a PodDisruptionBudget.
func (f *Fleet) addController(w *workload) {
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, Labels: w.labels(), CreationTimestamp: metav1.NewTime(f.started.Add(-48 * time.Hour))}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	replicas := new(int32(w.pods))
	switch w.kind {
	case "Deployment":
		f.server.Create("apps/deployments", &appsv1.Deployment{
			ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: replicas, Selector: selector, Template: f.template(w)},
			Status: appsv1.DeploymentStatus{Replicas: *replicas, UpdatedReplicas: *replicas, ReadyReplicas: *replicas, AvailableReplicas: *replicas, ObservedGeneration: 1},
		})
		f.server.Create("policy/poddisruptionbudgets", &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("50%")), Selector: selector},
			Status: policyv1.PodDisruptionBudgetStatus{
				CurrentHealthy: *replicas, DesiredHealthy: *replicas / 2, ExpectedPods: *replicas, DisruptionsAllowed: *replicas - *replicas/2, ObservedGeneration: 1,
			},
		})
	case "StatefulSet":
		f.server.Create("apps/statefulsets", &appsv1.StatefulSet{
			ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: replicas, Selector: selector, Template: f.template(w), ServiceName: w.name},
			Status: appsv1.StatefulSetStatus{Replicas: *replicas, ReadyReplicas: *replicas, CurrentReplicas: *replicas, UpdatedReplicas: *replicas, AvailableReplicas: *replicas, ObservedGeneration: 1},
		})
	case "CronJob":
		f.server.Create("batch/cronjobs", &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "*/10 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Parallelism: replicas, Completions: replicas, Template: f.template(w)}},
		}})
	}
}

// addOwner creates the controller of the next pods, unless it is the controller that the VPA targets.
func (f *Fleet) addOwner(w *workload) {
	w.revision++
	replicas := new(int32(w.pods))
	meta := metav1.ObjectMeta{Namespace: w.namespace, Labels: w.labels(), CreationTimestamp: metav1.NewTime(f.started.Add(-24 * time.Hour))}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.name}}
	switch w.kind {
	case "Deployment":
		w.ownerKind, w.owner = "ReplicaSet", w.name+"-"+code(w.revision, 10)
		meta.Name = w.owner
		meta.OwnerReferences = f.reference("apps/v1", "Deployment", "apps/deployments", w.namespace, w.name)
		f.server.Create("apps/replicasets", &appsv1.ReplicaSet{
			ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: replicas, Selector: selector, Template: f.template(w)},
			Status: appsv1.ReplicaSetStatus{Replicas: *replicas, ReadyReplicas: *replicas, AvailableReplicas: *replicas, FullyLabeledReplicas: *replicas, ObservedGeneration: 1},
		})
	case "StatefulSet":
		w.ownerKind, w.owner = "StatefulSet", w.name
	case "CronJob":
		w.ownerKind, w.owner = "Job", fmt.Sprintf("%s-%d", w.name, 29000000+w.revision)
		meta.Name = w.owner
		meta.OwnerReferences = f.reference("batch/v1", "CronJob", "batch/cronjobs", w.namespace, w.name)
		f.server.Create("batch/jobs", &batchv1.Job{
			ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: replicas, Completions: replicas, Selector: selector, Template: f.template(w)},
			Status: batchv1.JobStatus{Active: *replicas, StartTime: new(metav1.NewTime(f.started.Add(-6 * time.Hour)))},
		})
	}
}

// reference returns the reference to a controller.
func (f *Fleet) reference(apiVersion, kind, resource, namespace, name string) []metav1.OwnerReference {
	uid := types.UID("")
	if o := f.server.Get(resource, namespace, name); o != nil {
		uid = types.UID(o.UID)
	}
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true), BlockOwnerDeletion: new(true)}}
}

// code returns a name part of a number, as hashes of templates are.
func code(n, length int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	x := uint64(n)*0x9e3779b97f4a7c15 + 0x1234567
	out := make([]byte, length)
	for i := range out {
		out[i] = letters[x%uint64(len(letters))]
		x = x/uint64(len(letters)) ^ x<<7
	}
	return string(out)
}
