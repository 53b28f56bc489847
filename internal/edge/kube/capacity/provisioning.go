// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	provisioningGroup = "autoscaling.x-k8s.io"
	provisioningPath  = "/apis/" + provisioningGroup + "/v1"
	provisioningName  = "provisioningrequests"
	templatesName     = "podtemplates"

	// pageSize bounds the objects in memory while they are listed: each can have the maximum size of an object, 1.5 MiB.
	pageSize = 50
	// maxPerNamespace bounds the objects of a kind that are read of a namespace. podfit creates at most ten in the cluster, but users of the
	// namespace can create objects with the same label.
	maxPerNamespace = 100
	// maxFull bounds the namespaces with more objects that a list excludes, and so the length of its query.
	maxFull = 50
	// maxText bounds the message of a condition, in bytes.
	maxText = 512
)

// ProvisioningClass is the class that cluster autoscaler serves by adding nodes. Other classes only check whether there is room.
const ProvisioningClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

// A provisioningRequest has the fields of a ProvisioningRequest that podfit uses.
type provisioningRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              provisioningSpec `json:"spec"`
	Status            struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

type provisioningSpec struct {
	ProvisioningClassName string            `json:"provisioningClassName"`
	PodSets               []provisioningSet `json:"podSets"`
}

type provisioningSet struct {
	PodTemplateRef corev1.LocalObjectReference `json:"podTemplateRef"`
	Count          int32                       `json:"count"`
}

// ProvisioningRequests creates, reads and deletes ProvisioningRequest objects and their PodTemplates. It does not retry; the caller does.
//
// The PodTemplate is created first and deleted first, so a ProvisioningRequest without one is about to be deleted, and a PodTemplate
// without a ProvisioningRequest is a request that was not completed.
type ProvisioningRequests struct {
	clients  *kube.Clients
	class    string
	template Placeholders // builds the pod spec
	sender   kube.Sender
}

// NewProvisioningRequests returns the client. The objects have the given class. The pods of their templates have the given image, and are
// never created.
func NewProvisioningRequests(c *kube.Clients, class, image string) *ProvisioningRequests {
	return &ProvisioningRequests{clients: c, class: class, template: Placeholders{clients: c, image: image}}
}

// Available returns why ProvisioningRequests cannot be created, or "" if they can: the API server serves their API, and podfit may create
// and read them and PodTemplates. A dry run does not check the permissions.
func (q *ProvisioningRequests) Available(ctx context.Context, dryRun bool) (problem string, err error) {
	var served metav1.APIResourceList
	raw, err := q.rest().Get().AbsPath(provisioningPath).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(raw, &served)
	}
	switch {
	case apierrors.IsNotFound(err):
		return "the API " + provisioningGroup + "/v1 is not served", nil
	case err != nil:
		return "", fmt.Errorf("discover the API %s/v1: %w", provisioningGroup, err)
	case !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == provisioningName }):
		return "the API " + provisioningGroup + "/v1 has no " + provisioningName, nil
	case dryRun:
		return "", nil
	}
	for _, right := range []kube.Right{
		{Verb: "create", Resource: templatesName}, {Verb: "list", Resource: templatesName},
		{Verb: "create", Group: provisioningGroup, Resource: provisioningName}, {Verb: "list", Group: provisioningGroup, Resource: provisioningName},
	} {
		if problem, err = missingRight(ctx, q.clients, right); problem != "" || err != nil {
			return problem, err
		}
	}
	return "", nil
}

// missingRight returns the permission that podfit lacks in all namespaces, or "".
func missingRight(ctx context.Context, c *kube.Clients, right kube.Right) (problem string, err error) {
	has, err := c.Has(ctx, right)
	if err != nil || has {
		return "", err
	}
	return "no permission to " + right.Verb + " " + right.Resource, nil
}

// List returns the requests of podfit, sorted. A PodTemplate without a ProvisioningRequest is a failed request, so that it is deleted.
func (q *ProvisioningRequests) List(ctx context.Context) ([]cluster.CapacityRequest, error) {
	found := map[cluster.Key]cluster.CapacityRequest{}
	if err := q.listTemplates(ctx, found); err != nil {
		return nil, fmt.Errorf("list PodTemplates: %w", err)
	}
	if err := q.listRequests(ctx, found); err != nil {
		return nil, fmt.Errorf("list ProvisioningRequests: %w", err)
	}
	byName := func(a, b cluster.CapacityRequest) int { return cmp.Or(a.Compare(b.Key), strings.Compare(a.UID, b.UID)) }
	return slices.SortedFunc(maps.Values(found), byName), nil
}

// listTemplates adds a failed request for each PodTemplate.
func (q *ProvisioningRequests) listTemplates(ctx context.Context, found map[cluster.Key]cluster.CapacityRequest) error {
	return everyPage(func(o metav1.ListOptions, isRead func(namespace string) bool) (string, error) {
		page, err := q.clients.Core.CoreV1().PodTemplates("").List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			t := &page.Items[i]
			if !isRead(t.Namespace) || !isRequest(&t.ObjectMeta) {
				continue
			}
			found[keyOf(&t.ObjectMeta)] = cluster.CapacityRequest{
				Key: keyOf(&t.ObjectMeta), UID: string(t.UID), Kind: cluster.ProvisioningRequest, Created: t.CreationTimestamp.UTC(), Size: sizeOfTemplate(t),
				State: cluster.RequestFailed, Text: "the ProvisioningRequest was deleted or never created",
			}
		}
		return page.Continue, nil
	})
}

// listRequests adds each ProvisioningRequest, or replaces the request of its PodTemplate.
func (q *ProvisioningRequests) listRequests(ctx context.Context, found map[cluster.Key]cluster.CapacityRequest) error {
	templates := maps.Clone(found)
	return everyPage(func(o metav1.ListOptions, isRead func(namespace string) bool) (string, error) {
		raw, err := q.rest().Get().AbsPath(provisioningPath, provisioningName).Param("labelSelector", o.LabelSelector).
			Param("fieldSelector", o.FieldSelector).Param("limit", strconv.FormatInt(o.Limit, 10)).Param("continue", o.Continue).
			SetHeader("Accept", "application/json").Do(ctx).Raw()
		if err != nil {
			return "", err
		}
		var page struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return "", err
		}
		for _, item := range page.Items {
			var r provisioningRequest
			if json.Unmarshal(item, &r) != nil || !isRead(r.Namespace) || !isRequest(&r.ObjectMeta) {
				continue // one bad object does not hide the others
			}
			key := keyOf(&r.ObjectMeta)
			template, hasTemplate := templates[key]
			request := cluster.CapacityRequest{Key: key, UID: string(r.UID), Kind: cluster.ProvisioningRequest, Created: r.CreationTimestamp.UTC(), Size: template.Size}
			request.State, request.Text = stateOf(r.Status.Conditions)
			if !hasTemplate {
				request.State = cluster.RequestFailed
				request.Text = "the PodTemplate of the ProvisioningRequest was deleted"
			}
			found[key] = request
		}
		return page.Metadata.Continue, nil
	})
}

// everyPage calls read for every page of the objects with podfit's label. read returns the token of the next page, and reads those objects for
// whose namespace isRead returns true. As soon as a namespace has too many, the list starts again without it, so that its objects cost few
// requests and do not hide those of others.
func everyPage(read func(o metav1.ListOptions, isRead func(namespace string) bool) (next string, err error)) error {
	o := metav1.ListOptions{LabelSelector: projection.PlaceholderLabel + "=true", Limit: pageSize}
	var full []fields.Selector
	for counts := map[string]int{}; ; {
		excluded := len(full)
		next, err := read(o, func(namespace string) bool {
			counts[namespace]++
			if counts[namespace] == maxPerNamespace+1 && len(full) < maxFull {
				full = append(full, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
			}
			return counts[namespace] <= maxPerNamespace
		})
		if err != nil || next == "" {
			return err
		}
		o.Continue = next
		if len(full) > excluded {
			clear(counts)
			o.FieldSelector = fields.AndSelectors(full...).String()
			o.Continue = ""
		}
	}
}

func keyOf(m *metav1.ObjectMeta) cluster.Key {
	return cluster.Key{Namespace: m.Namespace, Name: m.Name}
}

// isRequest reports whether podfit has created an object: its label, and a name that follows from the UID in its annotation.
func isRequest(m *metav1.ObjectMeta) bool {
	uid := m.Annotations[projection.PlaceholderUID]
	return m.Labels[projection.PlaceholderLabel] == "true" && uid != "" && m.Name == cluster.PlaceholderFor(m.Namespace, uid).Name
}

func sizeOfTemplate(t *corev1.PodTemplate) cluster.Resources {
	var sum cluster.Resources
	for i := range t.Template.Spec.Containers {
		sum = sum.Add(kube.Amounts(t.Template.Spec.Containers[i].Resources.Requests))
	}
	return sum
}

// stateOf returns the state of a ProvisioningRequest by its conditions, and why it failed. Conditions that end it come first. Provisioned
// with the status False is no failure: cluster autoscaler tries again.
func stateOf(conditions []metav1.Condition) (cluster.RequestState, string) {
	for _, ends := range []string{"Failed", "CapacityRevoked", "BookingExpired"} {
		if c := meta.FindStatusCondition(conditions, ends); c != nil && c.Status == metav1.ConditionTrue {
			return cluster.RequestFailed, "the ProvisioningRequest has the condition " + ends + ": " + wording.Shortened(cmp.Or(c.Message, c.Reason), maxText)
		}
	}
	switch {
	case meta.IsStatusConditionTrue(conditions, "Provisioned"):
		return cluster.RequestProvided, ""
	case meta.IsStatusConditionTrue(conditions, "Accepted"):
		return cluster.RequestAccepted, ""
	}
	return cluster.RequestWaiting, ""
}

// Create creates the ProvisioningRequest for the replacement of a pod with the given requests. It returns nil if it exists already. An
// error wraps one of the refusals, kube.ErrNotFound if the pod does not exist any more, or the outcome is unknown.
func (q *ProvisioningRequests) Create(ctx context.Context, p *cluster.Pod, size cluster.Resources) error {
	owner, err := q.template.owner(ctx, p)
	if err != nil {
		return err
	}
	template := q.buildTemplate(owner, size)
	if err := q.createTemplate(ctx, template); err != nil {
		return fmt.Errorf("create the PodTemplate for %s: %w", p.Key, err)
	}
	err = q.post(ctx, provisioningPath, provisioningName, template.Namespace, provisioningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: provisioningGroup + "/v1", Kind: "ProvisioningRequest"}, ObjectMeta: template.ObjectMeta,
		Spec: provisioningSpec{ProvisioningClassName: q.class, PodSets: []provisioningSet{{PodTemplateRef: corev1.LocalObjectReference{Name: template.Name}, Count: 1}}},
	})
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil // its name follows from the UID of the pod
	case kube.IsRefusal(err):
		_ = q.delete(ctx, corePath, templatesName, &cluster.CapacityRequest{Key: keyOf(&template.ObjectMeta)}) // else the next pass does it
	}
	return fmt.Errorf("create the ProvisioningRequest for %s: %w", p.Key, err)
}

// createTemplate creates a PodTemplate. One with another size is deleted, so that the next attempt creates it again.
func (q *ProvisioningRequests) createTemplate(ctx context.Context, wanted *corev1.PodTemplate) error {
	err := q.post(ctx, corePath, templatesName, wanted.Namespace, wanted)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := q.clients.Core.CoreV1().PodTemplates(wanted.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", wanted.Name).String(),
	})
	if err != nil {
		return kube.WithReason(kube.ErrNotSent, err) // nothing was changed
	}
	for i := range existing.Items {
		t := &existing.Items[i]
		if t.Name != wanted.Name || !isRequest(&t.ObjectMeta) {
			continue
		}
		if sizeOfTemplate(t) == sizeOfTemplate(wanted) {
			return nil
		}
		if err := q.delete(ctx, corePath, templatesName, &cluster.CapacityRequest{Key: keyOf(&t.ObjectMeta), UID: string(t.UID)}); err != nil {
			return err
		}
		return kube.WithReason(kube.ErrBusy, fmt.Errorf("the PodTemplate %s/%s had another size, so it was deleted, and a new one is created later", t.Namespace, t.Name))
	}
	return kube.WithReason(kube.ErrDenied, fmt.Errorf("PodTemplate %s/%s exists and does not belong to this request; delete it, so that podfit can create its own", wanted.Namespace, wanted.Name))
}

// Delete deletes a ProvisioningRequest and its PodTemplate. It returns nil if they do not exist.
func (q *ProvisioningRequests) Delete(ctx context.Context, r *cluster.CapacityRequest) error {
	if err := q.delete(ctx, corePath, templatesName, &cluster.CapacityRequest{Key: r.Key}); err != nil {
		return fmt.Errorf("delete PodTemplate %s: %w", r.Key, err)
	}
	if err := q.delete(ctx, provisioningPath, provisioningName, r); err != nil {
		return fmt.Errorf("delete ProvisioningRequest %s: %w", r.Key, err)
	}
	return nil
}

const corePath = "/api/v1"

func (q *ProvisioningRequests) rest() rest.Interface { return q.clients.Core.CoreV1().RESTClient() }

func (q *ProvisioningRequests) post(ctx context.Context, api, resource, namespace string, object any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return kube.Refused(q.sender.Send(ctx, q.rest().Post().AbsPath(api, "namespaces", namespace, resource).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(data)))
}

// delete deletes an object, if it has the UID of the request or that is empty. It returns nil if there is none.
func (q *ProvisioningRequests) delete(ctx context.Context, api, resource string, r *cluster.CapacityRequest) error {
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	if r.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(r.UID)
	}
	data, err := json.Marshal(options)
	if err != nil {
		return err
	}
	err = q.sender.Send(ctx, q.rest().Delete().AbsPath(api, "namespaces", r.Namespace, resource, r.Name).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(data))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) && kube.IsOtherUID(err) {
		return nil
	}
	return kube.Refused(err)
}

// buildTemplate returns the PodTemplate for the replacement of a pod. The garbage collector deletes it with the pod, which owns it. The
// template has the labels of the pod, by which cluster autoscaler applies its constraints.
func (q *ProvisioningRequests) buildTemplate(p *corev1.Pod, size cluster.Resources) *corev1.PodTemplate {
	pod := q.template.build(p, size)
	pod.Spec.PriorityClassName = p.Spec.PriorityClassName
	delete(pod.Annotations, "karpenter.sh/do-not-disrupt")
	return &corev1.PodTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"}, ObjectMeta: pod.ObjectMeta,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: pod.Spec},
	}
}
