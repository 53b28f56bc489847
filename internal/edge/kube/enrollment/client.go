// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package enrollment reads which namespaces opt in to VPAs for their workloads, and writes these VPAs.
package enrollment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/optin"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// A Client reads namespaces and writes VPAs. It does not retry; the caller does.
type Client struct {
	*kube.Clients
	sender kube.Sender
}

// Namespaces returns all namespaces that are not being deleted. It returns an error without the rights of deploy/rights/namespace-opt-in.
func (c *Client) Namespaces(ctx context.Context) (out []optin.Namespace, err error) {
	may, err := c.Has(ctx, kube.Right{Verb: "create", Group: v1.GroupName, Resource: v1.ResourceAutoscalers})
	if err == nil && !may { // podfit run may list namespaces without them
		err = errors.New("the service account of the recommender may not create VPAs")
	}
	if err != nil && !errors.Is(err, kube.ErrReadOnly) { // a dry run needs no right to write
		return nil, err
	}
	namespaces := c.Metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	err = kube.EachPage(ctx, metav1.ListOptions{Limit: kube.PageSize}, namespaces.List, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if page.Items[i].DeletionTimestamp == nil {
				out = append(out, namespace(&page.Items[i]))
			}
		}
		return nil
	})
	return out, err
}

// modes are the values of podfit's label, and those of Goldilocks in lower case.
var modes = map[string]cluster.Mode{
	"off": cluster.Off, "initial": cluster.Initial, "recreate": cluster.Recreate, "in-place-or-recreate": cluster.InPlaceOrRecreate,
	"auto": cluster.Recreate, "inplaceorrecreate": cluster.InPlaceOrRecreate,
}

// namespace returns whether and how a namespace opts in. It never fails: an invalid value is a problem.
func namespace(m *metav1.PartialObjectMetadata) optin.Namespace {
	out := optin.Namespace{Name: m.Name}
	check := func(valid bool, name, value, want string) {
		if !valid && out.Problem == "" { // the first one, so that it is logged once
			out.Problem = fmt.Sprintf("%s is %.40q; set %s", name, value, want)
		}
	}
	label := "podfit.dev/autoscale"
	mode, on := m.Labels[label]
	if !on && m.Labels["goldilocks.fairwinds.com/enabled"] == "true" {
		label, on = "goldilocks.fairwinds.com/vpa-update-mode", true
		mode = strings.ToLower(cmp.Or(m.Labels[label], m.Annotations[label], "off"))
	}
	if !on {
		return out
	}
	out.On = true
	out.Mode, on = modes[mode]
	check(on, label, mode, "off, initial, recreate or in-place-or-recreate")
	out.Profile = cmp.Or(m.Annotations["podfit.dev/profile"], "default")
	check(len(validation.IsDNS1123Subdomain(out.Profile)) == 0, "podfit.dev/profile", out.Profile, "the name of a built-in profile or of a SizingProfile")
	out.Policy.Container = "*"
	for _, res := range cluster.All {
		least, most := "podfit.dev/min-allowed-"+res.String(), "podfit.dev/max-allowed-"+res.String()
		bound := func(name string, to *cluster.Resources) {
			if text, set := m.Annotations[name]; set {
				q, err := kube.ParseQuantity(text)
				*to = to.Set(res, kube.Amount(res, q))
				check(err == nil && to.Amount(res) > 0, name, text, "a quantity above 0, such as 100m or 256Mi")
			}
		}
		bound(least, &out.Policy.MinAllowed)
		bound(most, &out.Policy.MaxAllowed)
		highest, bounded := out.Policy.MaxAllowed.Get(res)
		check(!bounded || highest >= out.Policy.MinAllowed.Amount(res), most, m.Annotations[most], "at least "+least)
	}
	return out
}

// Write sends a change. An autoscaler that exists must have the UID that the decision was about. It belongs to its workload, so that Kubernetes
// deletes both together.
func (c *Client) Write(ctx context.Context, now time.Time, change *optin.Change) error {
	key, setting := optin.Key(change.Target), &change.Setting
	of := projection.ResourceOfWellKnown(change.Target.Kind)
	owner := metav1.OwnerReference{APIVersion: of.GroupVersion().String(), Kind: change.Target.Kind, Name: change.Target.Name}
	policy := v1.ContainerResourcePolicy{ContainerName: "*", MinAllowed: kube.Quantities(setting.Policy.MinAllowed), MaxAllowed: kube.Quantities(setting.Policy.MaxAllowed)}
	var ended any
	object := map[string]any{"apiVersion": v1.GroupVersion().String(), "kind": "VerticalPodAutoscaler", "spec": map[string]any{
		"targetRef":    autoscalingv1.CrossVersionObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name},
		"updatePolicy": map[string]any{"updateMode": setting.Mode.String()}, "recommenders": []any{map[string]any{"name": setting.Profile}},
		"resourcePolicy": v1.PodResourcePolicy{ContainerPolicies: []v1.ContainerResourcePolicy{policy}},
	}}
	request := c.Autoscalers.Patch(types.MergePatchType).Name(key.Name)
	switch change.Act {
	case "create":
		found, err := c.Metadata.Resource(of).Namespace(key.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read the owner: %w", err)
		}
		owner.UID = found.UID
		request = c.Autoscalers.Post()
		object["metadata"] = map[string]any{
			"name": key.Name, "labels": map[string]string{v1alpha1.LabelNamespace: key.Namespace, "app.kubernetes.io/managed-by": kube.Agent}, "ownerReferences": []any{owner},
		}
	case "delete":
		request = c.Autoscalers.Delete().Name(key.Name)
		object = map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": map[string]any{"uid": change.UID}}
	case "end":
		ended = now.UTC().Format(time.RFC3339)
		delete(object, "spec")
		fallthrough
	default:
		object["metadata"] = map[string]any{"uid": change.UID, "annotations": map[string]any{v1alpha1.AnnotationOptInEnded: ended}}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return kube.Refused(c.sender.Send(ctx, request.Namespace(key.Namespace).Resource(v1.ResourceAutoscalers).Body(body)))
}
