// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	vpa "podfit.dev/podfit/api/v1"
)

func (w *workload) labels() map[string]string {
	return map[string]string{"app": w.name, "app.kubernetes.io/part-of": w.namespace, "app.kubernetes.io/managed-by": "Helm"}
}

func amounts(s size) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(s.millicores, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(s.bytes, resource.BinarySI),
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// node returns a node whose pods never lack room.
func node(i int) *corev1.Node {
	room := amounts(size{256_000, 1 << 40})
	room[corev1.ResourcePods] = *resource.NewQuantity(2*perNode, resource.DecimalSI)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
			"kubernetes.io/hostname": nodeName(i), "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3), "node.kubernetes.io/instance-type": "large",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room, NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
}

// containerNames are the names of the containers of a pod.
var containerNames = []string{"app", "proxy"}

// containers returns the containers of a workload, with the requests of its template.
func (f *Fleet) containers(w *workload) []corev1.Container {
	var out []corev1.Container
	for i, s := range w.requests {
		c := corev1.Container{
			Name: containerNames[i], Image: "registry.example.com/" + w.namespace + "/" + w.name + ":v1.42.0", ImagePullPolicy: corev1.PullIfNotPresent,
			Resources: corev1.ResourceRequirements{Requests: amounts(s), Limits: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(2*s.bytes, resource.BinarySI)}},
			Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8080 + i), Protocol: corev1.ProtocolTCP}},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "config", MountPath: "/etc/app"},
				{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
			},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromString("http")}}},
			ResizePolicy: []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}, {ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired},
			},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}
		for e := range 8 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", e), Value: "value-of-a-setting"})
		}
		out = append(out, c)
	}
	return out
}

func (f *Fleet) template(w *workload) corev1.PodTemplateSpec {
	restart := corev1.RestartPolicyAlways
	if w.kind == "CronJob" {
		restart = corev1.RestartPolicyOnFailure
	}
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: w.labels()},
		Spec: corev1.PodSpec{
			Containers: f.containers(w), RestartPolicy: restart, ServiceAccountName: "default", SchedulerName: "default-scheduler", DNSPolicy: corev1.DNSClusterFirst,
			TerminationGracePeriodSeconds: new(int64(30)), SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true)},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
			},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: w.name}}}},
				{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

// managed is what the API server records about the fields of a pod: about 1.5 KB of each pod in a real cluster.
var managed = func() []metav1.ManagedFieldsEntry {
	var fields strings.Builder
	fields.WriteString(`{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{}},"f:ownerReferences":{}},"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{".":{},"f:env":{`)
	for e := range 8 {
		fmt.Fprintf(&fields, `"k:{\"name\":\"SETTING_%d\"}":{".":{},"f:name":{},"f:value":{}},`, e)
	}
	fields.WriteString(`".":{}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{},"f:resources":{"f:limits":{},"f:requests":{}}}},"f:dnsPolicy":{},"f:restartPolicy":{}}}`)
	status := `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},` +
		`"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}}`
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields.String())},
		{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(status), Subresource: "status"},
	}
}()

// pod returns a pod that has not started.
func (f *Fleet) pod(w *workload) *corev1.Pod {
	t := f.template(w)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: w.owner + "-" + code(w.created*977+w.revision, 5), GenerateName: w.owner + "-", Labels: t.Labels, ManagedFields: managed,
	}, Spec: t.Spec, Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}}
	switch w.ownerKind {
	case "ReplicaSet":
		p.OwnerReferences = f.reference("apps/v1", w.ownerKind, "apps/replicasets", w.namespace, w.owner)
		p.Labels["pod-template-hash"] = code(w.revision, 10)
	case "StatefulSet":
		p.OwnerReferences = f.reference("apps/v1", w.ownerKind, "apps/statefulsets", w.namespace, w.owner)
		p.Name = fmt.Sprintf("%s-%d", w.owner, w.created)
	case "Job":
		p.OwnerReferences = f.reference("batch/v1", w.ownerKind, "batch/jobs", w.namespace, w.owner)
	}
	w.created++
	return p
}

// start makes a pod run on a node.
func start(p *corev1.Pod, node string, at time.Time) {
	now := metav1.NewTime(at.Truncate(time.Second))
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	p.Status.StartTime = &now
	p.Status.HostIP = "10.0.0.1"
	p.Status.PodIP = "10.1.0.1"
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	p.Status.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Ready: true, Started: new(true), Image: c.Image, ImageID: c.Image + "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
			ContainerID: "containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	actuate(p)
}

// actuate does what a kubelet does after a resize.
func actuate(p *corev1.Pod) {
	for i := range p.Status.ContainerStatuses {
		c := &p.Spec.Containers[i]
		p.Status.ContainerStatuses[i].AllocatedResources = c.Resources.Requests
		p.Status.ContainerStatuses[i].Resources = c.Resources.DeepCopy()
	}
	p.Status.ObservedGeneration = p.Generation
}

// modes are the update modes of the VPAs: a fifth each, and two fifths for the last one.
var modes = []vpa.UpdateMode{vpa.UpdateModeOff, vpa.UpdateModeInitial, vpa.UpdateModeRecreate, vpa.UpdateModeInPlaceOrRecreate, vpa.UpdateModeInPlaceOrRecreate}

func (f *Fleet) autoscaler(w *workload, created time.Time) *vpa.VerticalPodAutoscaler {
	mode := modes[int(f.number(w.name, 5)*float64(len(modes)))]
	target := &autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: w.kind, Name: w.name}
	if w.kind == "CronJob" {
		target.APIVersion = "batch/v1"
	}
	return &vpa.VerticalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: w.name, Labels: map[string]string{"app": w.name}, CreationTimestamp: metav1.NewTime(created)},
		Spec:       vpa.VerticalPodAutoscalerSpec{TargetRef: target, UpdatePolicy: &vpa.PodUpdatePolicy{UpdateMode: &mode}},
	}
}
