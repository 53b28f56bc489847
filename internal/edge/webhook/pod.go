// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/policy"
)

// pod sizes a new pod. It never refuses one.
func (h *Handler) pod(ctx context.Context, asked *asked, response *admissionv1.AdmissionResponse) (result string) {
	request := asked.request
	if asked.err != nil {
		h.failures.Do(func() {
			h.log.Warn("Cannot decode a pod; it passes unchanged", slog.String("namespace", brief(request.Namespace)), slog.String("name", brief(request.Name)),
				slog.String("error", brief(asked.err.Error())))
		})
		return resultError
	}
	if asked.pod == nil {
		return resultSkipped
	}
	p := asked.pod
	p.Namespace = request.Namespace // the pod itself may not say where it will be
	projected := h.world.Project(ctx, p)
	if projected.Top.IsZero() {
		return resultSkipped
	}
	a := h.world.Governing(projected.Top)
	if a == nil {
		return resultSkipped
	}
	patch, err := h.fit(a, p, projected)
	if err != nil {
		h.log.Error("Cannot write the patch of a pod; it passes unchanged", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.Any("error", err))
		return resultError
	}
	patchWith(response, patch)
	if h.options.DryRun {
		h.log.Info("Would size a new pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.String("patch", string(patch)))
	} else {
		h.log.Debug("Sized a new pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()))
	}
	return resultApplied
}

// fit returns the JSON patch that gives a pod what the core fits for it. The order of the operations is promised.
func (h *Handler) fit(a *cluster.Autoscaler, p *corev1.Pod, projected *cluster.Pod) ([]byte, error) {
	s := h.fitted(a, projected, standingOf(p))
	if s.refused.Refused() {
		h.kept.Do(func() {
			h.log.Info("A new pod keeps its own resources because the API server would refuse it with the recommended ones",
				slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()), slog.String("reason", s.refused.String()))
		})
	}
	ops := make(operations, 0, 3+7*len(s.fits))
	if p.Annotations == nil {
		ops.add("/metadata/annotations", emptyObject)
	}
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		for _, o := range s.originals {
			if o.Container == c.Name {
				ops.annotate(o.Key(), o.Value())
			}
		}
		for j := range s.fits {
			if s.fits[j].Container == c.Name {
				ops.container(i, c, &s.fits[j])
			}
		}
	}
	ops.podLevel(p, s.fits)
	text := policy.Annotation(a, s.fits)
	if s.refused.Refused() {
		text = policy.RefusedAnnotation(a, s.refused)
	}
	if s.boostRefused.Refused() {
		text = policy.WithRefusedBoost(a, text, s.boostRefused)
		h.boosts.Do(func() {
			h.log.Warn("Startup boost not applied: the API server would refuse the pod", slog.String("pod", podName(p)), slog.String("vpa", a.Key.String()),
				slog.String("reason", s.boostRefused.String()))
		})
	}
	if text != "" {
		ops.annotate(policy.UpdatesAnnotation, text)
	}
	ops.annotate(policy.ObservedAnnotation, policy.ObservedContainers(projected))
	return json.Marshal(ops)
}

// newSize is what the containers of a new pod should run with.
type newSize struct {
	fits         []policy.Fitted
	originals    []policy.Original // of boosted containers
	refused      policy.Refusal    // why the pod keeps its own resources
	boostRefused policy.Refusal    // why the pod is not boosted
}

// fitted sizes a new pod. A pod that the API server would admit as it is, and refuse with its sizes, is not boosted, or
// keeps its own resources.
func (h *Handler) fitted(a *cluster.Autoscaler, p *cluster.Pod, standing cluster.Standing) newSize {
	around := h.world.Limits(p.Namespace)
	refusal := func(fits []policy.Fitted) policy.Refusal {
		r := policy.Refused(around, p, fits)
		if r.Refused() && !(r.Kind.OfLimitRange() && policy.Refused(around, p, nil).Refused()) {
			return r
		}
		// If it was refused with its own size, too, the LimitRange may have changed by now.
		return policy.QuotaRefusal(around, p, standing, fits)
	}
	var s newSize
	if a.Mode != cluster.Off {
		s.fits = policy.Fit(a, around, p)
	}
	if h.options.Gates.CPUStartupBoost && a.HasStartupBoost() {
		boosted, originals := policy.Boost(a, p, slices.Clone(s.fits), h.options.MaxCPUBoost)
		policy.Admissible(around, p, boosted)
		s.boostRefused = refusal(boosted)
		if !s.boostRefused.Refused() {
			s.fits, s.originals = boosted, originals
			return s
		}
	}
	s.refused = refusal(s.fits)
	if s.refused.Refused() {
		s.fits = nil
	}
	return s
}

func podName(p *corev1.Pod) string {
	if p.Name == "" {
		return p.Namespace + "/" + p.GenerateName + "*"
	}
	return p.Namespace + "/" + p.Name
}

// An operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type operations []operation

var emptyObject = struct{}{}

func (o *operations) add(path string, value any) {
	*o = append(*o, operation{Op: "add", Path: path, Value: value})
}

func (o *operations) annotate(name, value string) {
	o.add("/metadata/annotations/"+pointer.Replace(name), value)
}

// pointer writes a name as one step of a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// container sets what a container is to run with.
func (o *operations) container(i int, c *corev1.Container, f *policy.Fitted) {
	if f.Requests.Has.Empty() && f.Limits.Has.Empty() {
		return
	}
	at := "/spec/containers/" + strconv.Itoa(i) + "/resources"
	r := &c.Resources
	// Where there are claims, or what is not known here, there is an object already, and replacing it would lose them.
	if r.Requests == nil && r.Limits == nil && len(r.Claims) == 0 {
		o.add(at, emptyObject)
	}
	o.amounts(at+"/requests", r.Requests == nil, f.Requests)
	o.amounts(at+"/limits", r.Limits == nil, f.Limits)
}

// podLevel sets what the pod as a whole is to have.
func (o *operations) podLevel(p *corev1.Pod, fits []policy.Fitted) {
	if len(fits) == 0 || fits[0].PodLevel == nil || p.Spec.Resources == nil {
		return
	}
	o.amounts("/spec/resources/requests", p.Spec.Resources.Requests == nil, fits[0].PodLevel.Requests)
	o.amounts("/spec/resources/limits", p.Spec.Resources.Limits == nil, fits[0].PodLevel.Limits)
}

func (o *operations) amounts(at string, missing bool, amounts cluster.Resources) {
	if amounts.Has.Empty() {
		return
	}
	if missing {
		o.add(at, emptyObject)
	}
	for _, res := range cluster.All {
		if v, ok := amounts.Get(res); ok {
			o.add(at+"/"+res.String(), quantity(res, v))
		}
	}
}

// quantity writes an amount as upstream writes it: CPU in decimal, memory in binary units.
func quantity(res cluster.Resource, amount int64) string {
	if res == cluster.CPU {
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	}
	return resource.NewQuantity(amount, resource.BinarySI).String()
}
