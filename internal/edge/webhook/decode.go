// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"

	v1 "podfit.dev/podfit/api/v1"
)

// A review is decoded into types that have only the necessary fields. The decoder skips other fields without allocating memory, so these
// limits bound the memory of a review.
const (
	maxContainers = 256    // in each list of a pod: cluster.Container counts up to 255
	maxOwners     = 256    // owner references of a pod
	maxValues     = 20_000 // JSON values in the spec or the annotations of an autoscaler
	maxName       = 1024   // bytes of a name; Kubernetes allows 253
	maxUID        = 256    // bytes; the answer repeats it
)

// An unboundedError is returned if an object exceeds a limit. Such an object is admitted unchanged.
type unboundedError struct {
	what string // label value of the metric
	most int
}

func (e unboundedError) Error() string { return fmt.Sprintf("more than %d %s", e.most, e.what) }

// The limits, as label values of the metric.
const (
	tooManyContainers = "containers"
	tooManyOwners     = "owner references"
	tooManyValues     = "values"
	tooLongName       = "bytes in a name"
)

// A request is the request of an AdmissionReview, with the fields that podfit needs. Its objects share the memory of the body.
type request struct {
	UID         types.UID                   `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	RequestKind *metav1.GroupVersionKind    `json:"requestKind"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   admissionv1.Operation       `json:"operation"`
	Object      shared                      `json:"object"`
	OldObject   shared                      `json:"oldObject"`
}

func decodeRequest(body []byte) (*request, error) {
	var review struct {
		Request *request `json:"request"`
	}
	err := kjson.Unmarshal(body, &review)
	if r := review.Request; r != nil && len(r.UID) > maxUID {
		return nil, fmt.Errorf("uid has %d bytes, at most %d are allowed", len(r.UID), maxUID)
	}
	return review.Request, err
}

var null = []byte("null")

// shared is a part of a JSON text that is not copied.
type shared []byte

func (s *shared) UnmarshalJSON(text []byte) error {
	if !bytes.Equal(text, null) {
		*s = text
	}
	return nil
}

// decodePod decodes the fields of a new pod that podfit needs.
func decodePod(text []byte) (*corev1.Pod, error) {
	var from struct {
		Metadata struct {
			Name            string        `json:"name"`
			GenerateName    string        `json:"generateName"`
			Annotations     present       `json:"annotations"`
			OwnerReferences owners        `json:"ownerReferences"`
			Labels          runtimeLabels `json:"labels"`
		} `json:"metadata"`
		Spec struct {
			InitContainers containers    `json:"initContainers"`
			Containers     containers    `json:"containers"`
			Resources      *requirements `json:"resources"`

			// These fields determine which ResourceQuotas apply to the pod.
			Overhead      resourceList `json:"overhead"`
			Deadline      *int64       `json:"activeDeadlineSeconds"`
			PriorityClass string       `json:"priorityClassName"`
			Affinity      podAffinity  `json:"affinity"`

			// These fields determine which nodes may take the pod.
			NodeSelector nodeSelector `json:"nodeSelector"`
			Tolerations  tolerations  `json:"tolerations"`
		} `json:"spec"`
	}
	err := errors.Join(kjson.Unmarshal(text, &from), checkNames(from.Metadata.Name, from.Metadata.GenerateName, from.Spec.PriorityClass))
	if err != nil {
		return nil, err
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: from.Metadata.Name, GenerateName: from.Metadata.GenerateName, OwnerReferences: from.Metadata.OwnerReferences,
			Labels: from.Metadata.Labels,
		},
		Spec: corev1.PodSpec{
			InitContainers: from.Spec.InitContainers, Containers: from.Spec.Containers, Overhead: from.Spec.Overhead.list,
			ActiveDeadlineSeconds: from.Spec.Deadline, PriorityClassName: from.Spec.PriorityClass,
			Affinity: &from.Spec.Affinity.Affinity, NodeName: from.Spec.Affinity.node,
			NodeSelector: from.Spec.NodeSelector.labels, Tolerations: from.Spec.Tolerations.all,
		},
	}
	if from.Spec.NodeSelector.unknown || from.Spec.Tolerations.unknown {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} // any node may take it
	}
	if from.Metadata.Annotations {
		p.Annotations = map[string]string{} // podfit only adds to them
	}
	if r := from.Spec.Resources; r != nil {
		p.Spec.Resources = new(r.resources())
	}
	return p, nil
}

// present is whether a field contains an object.
type present bool

func (p *present) UnmarshalJSON(text []byte) error {
	*p = present(!bytes.Equal(text, null))
	if *p && text[0] != '{' {
		return errors.New("not an object")
	}
	return nil
}

type owners []metav1.OwnerReference

func (o *owners) UnmarshalJSON(text []byte) error {
	*o = nil
	return elements(text, maxOwners, tooManyOwners, func(element []byte) error {
		var from struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
			Controller *bool  `json:"controller"`
		}
		err := errors.Join(kjson.Unmarshal(element, &from), checkNames(from.APIVersion, from.Kind, from.Name))
		if from.Controller != nil && *from.Controller { // no other owner matters
			*o = append(*o, metav1.OwnerReference{APIVersion: from.APIVersion, Kind: from.Kind, Name: from.Name, Controller: from.Controller})
		}
		return err
	})
}

// containers are the containers of a pod, with the fields that podfit needs.
type containers []corev1.Container

func (c *containers) UnmarshalJSON(text []byte) error {
	*c = nil
	return elements(text, maxContainers, tooManyContainers, func(element []byte) error {
		var from struct {
			Name          string                         `json:"name"`
			Resources     requirements                   `json:"resources"`
			RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`

			// These fields show the language runtime of the container.
			Image   shortText   `json:"image"`
			Command words       `json:"command"`
			Args    words       `json:"args"`
			Env     environment `json:"env"`
			EnvFrom nonEmpty    `json:"envFrom"`
		}
		err := errors.Join(kjson.Unmarshal(element, &from), checkNames(from.Name))
		container := corev1.Container{
			Name: from.Name, Resources: from.Resources.resources(), RestartPolicy: from.RestartPolicy,
			Image: string(from.Image), Command: from.Command, Args: from.Args, Env: from.Env.list,
		}
		if bool(from.EnvFrom) || from.Env.more {
			container.EnvFrom = []corev1.EnvFromSource{{}}
		}
		*c = append(*c, container)
		return err
	})
}

// checkNames returns an error if one of several names is too long.
func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > maxName {
			return unboundedError{what: tooLongName, most: maxName}
		}
	}
	return nil
}

// requirements are requests and limits of CPU and memory, and whether the object has any fields.
type requirements struct {
	requests, limits resourceList
	members          bool
}

func (r *requirements) UnmarshalJSON(text []byte) error {
	var from struct {
		Requests resourceList `json:"requests"`
		Limits   resourceList `json:"limits"`
	}
	err := kjson.Unmarshal(text, &from)
	*r = requirements{requests: from.Requests, limits: from.Limits, members: bytes.IndexByte(text, '"') >= 0}
	return err
}

// resources converts the requirements. If there are neither requests nor limits but other fields, it adds a claim without a name, so
// that the patch does not replace the object.
func (r *requirements) resources() corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{Requests: r.requests.list, Limits: r.limits.list}
	if r.members && r.requests.list == nil && r.limits.list == nil {
		out.Claims = []corev1.ResourceClaim{{}}
	}
	return out
}

// resourceList is the CPU and memory of a resource list. An empty list is not nil.
type resourceList struct{ list corev1.ResourceList }

func (a *resourceList) UnmarshalJSON(text []byte) error {
	a.list = nil
	if bytes.Equal(text, null) {
		return nil
	}
	var from struct {
		CPU    *quantityText `json:"cpu"`
		Memory *quantityText `json:"memory"`
	}
	if err := kjson.Unmarshal(text, &from); err != nil {
		return err
	}
	a.list = corev1.ResourceList{}
	if from.CPU != nil {
		a.list[corev1.ResourceCPU] = resource.Quantity(*from.CPU)
	}
	if from.Memory != nil {
		a.list[corev1.ResourceMemory] = resource.Quantity(*from.Memory)
	}
	return nil
}

// quantityText is a quantity that is parsed only if parsing takes bounded time.
type quantityText resource.Quantity

func (q *quantityText) UnmarshalJSON(text []byte) error {
	if err := v1.CheckQuantity(text); err != nil {
		return err
	}
	return (*resource.Quantity)(q).UnmarshalJSON(text)
}

// An autoscalerReview is the fields of a VPA that podfit needs to review it.
type autoscalerReview struct {
	Metadata struct {
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec v1.VerticalPodAutoscalerSpec `json:"spec"`

	noSpec bool // the object has no spec; the schema of the API server rejects it
}

// decodeAutoscaler decodes the fields of a VPA that podfit needs to review it.
func decodeAutoscaler(text []byte) (*autoscalerReview, error) {
	var whole struct {
		Metadata struct {
			Annotations shared `json:"annotations"`
		} `json:"metadata"`
		Spec shared `json:"spec"`
	}
	if err := kjson.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	if max(values(whole.Spec), values(whole.Metadata.Annotations)) > maxValues {
		return nil, unboundedError{what: tooManyValues, most: maxValues}
	}
	if err := v1.CheckQuantities(whole.Spec); err != nil {
		return nil, err
	}
	out := autoscalerReview{noSpec: len(whole.Spec) == 0 || bytes.Equal(whole.Spec, null)}
	return &out, kjson.Unmarshal(text, &out)
}

// elements calls each for each element of a valid JSON array. It returns an unboundedError if there are more than most elements.
func elements(array []byte, most int, what string, each func(element []byte) error) error {
	if bytes.Equal(array, null) {
		return nil
	}
	if array[0] != '[' {
		return errors.New("not an array")
	}
	var errs error
	n := 0
	depth := 0
	begin := -1
	for i := 0; i < len(array); i++ {
		c := array[i]
		if depth == 1 && (c == ',' || c == ']') && begin >= 0 {
			if n++; n > most {
				return unboundedError{what: what, most: most}
			}
			if err := each(bytes.TrimSpace(array[begin:i])); err != nil {
				errs = err
			}
			begin = -1
		} else if depth == 1 && begin < 0 && c > ' ' && c != ',' && c != ']' {
			begin = i
		}
		switch c {
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '"':
			i = endOfString(array, i)
		}
	}
	return errs
}

// endOfString returns the index of the quotation mark that ends the string beginning at i.
func endOfString(text []byte, i int) int {
	for i++; i < len(text) && text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i
}

// values returns the number of values in valid JSON, names of members included.
func values(text []byte) int {
	n, within := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			i = endOfString(text, i)
			n++
		case '{', '[':
			n++
			within = false
		case '}', ']', ',', ':', ' ', '\t', '\r', '\n':
			within = false
		default: // a number, true, false or null
			if !within {
				n++
			}
			within = true
		}
	}
	return n
}
