// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"podfit.dev/podfit/api/podfit/v1alpha1"
	v1 "podfit.dev/podfit/api/v1"
	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/ledger"
	"podfit.dev/podfit/internal/core/usage"
	"podfit.dev/podfit/internal/edge/kube"
)

// A Reader reads the stored state of single workloads. It keeps nothing and writes nothing.
type Reader struct{ autoscalers, own rest.Interface }

// NewReader returns a reader.
func NewReader(c *kube.Clients) (*Reader, error) {
	own, _, err := c.Own()
	if err != nil {
		return nil, fmt.Errorf("create the client for UsageHistory objects: %w", err)
	}
	return &Reader{c.Autoscalers, own}, nil
}

// Histories returns the stored histories of a workload. There are none if no UsageHistory of the workload exists.
func (r *Reader) Histories(ctx context.Context, w cluster.Workload) ([]usage.History, error) {
	for _, name := range [...]string{historyName(w), hashedHistoryName(w)} {
		raw, err := kube.Body(r.own.Get().Namespace(w.Namespace).Resource(v1alpha1.ResourceUsageHistories).Name(name).Do(ctx))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read UsageHistory %s/%s: %w", w.Namespace, name, err)
		}
		var o historyObject
		if err := o.decode(raw, historyTooLarge); err != nil {
			return nil, fmt.Errorf("decode UsageHistory %s/%s: %w", w.Namespace, name, err)
		}
		if owner, err := o.workload(); err == nil && owner == w {
			return o.histories()
		}
	}
	return nil, nil
}

// errNoCheckpoint means that a container has no checkpoint.
var errNoCheckpoint = errors.New("there is no checkpoint")

// Checkpoint returns the checkpoint of a container, and false if there is none.
func (r *Reader) Checkpoint(ctx context.Context, key Key) (usage.Checkpoint, bool, error) {
	for _, name := range [...]string{checkpointName(key), alternateName(key)} {
		p, err := r.checkpoint(ctx, key, name)
		switch {
		case err == nil:
			return p, true, nil
		case !errors.Is(err, errNoCheckpoint):
			return usage.Checkpoint{}, false, err
		}
	}
	return usage.Checkpoint{}, false, nil
}

func (r *Reader) checkpoint(ctx context.Context, key Key, name string) (usage.Checkpoint, error) {
	raw, err := kube.Body(r.autoscalers.Get().Namespace(key.Autoscaler.Namespace).Resource(v1.ResourceCheckpoints).Name(name).Do(ctx))
	if apierrors.IsNotFound(err) {
		return usage.Checkpoint{}, errNoCheckpoint
	}
	if err != nil {
		return usage.Checkpoint{}, fmt.Errorf("read checkpoint %s/%s: %w", key.Autoscaler.Namespace, name, err)
	}
	var o checkpointObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return usage.Checkpoint{}, fmt.Errorf("decode checkpoint %s/%s: %w", key.Autoscaler.Namespace, name, err)
	}
	if o.key() != key {
		return usage.Checkpoint{}, errNoCheckpoint
	}
	return o.checkpoint()
}

// State returns the record of the updater about a workload, and false if there is none. Parts that cannot be decoded are left out.
func (r *Reader) State(ctx context.Context, w cluster.Workload) (ledger.State, bool, error) {
	for _, name := range [...]string{historyName(w), hashedHistoryName(w)} {
		raw, err := kube.Body(r.own.Get().Namespace(w.Namespace).Resource(v1alpha1.ResourceUpdateStates).Name(name).Do(ctx))
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return ledger.State{}, false, fmt.Errorf("read UpdateState %s/%s: %w", w.Namespace, name, err)
		}
		var o updateStateObject
		if err := o.decode(raw, stateTooLarge); err != nil {
			return ledger.State{}, false, fmt.Errorf("decode UpdateState %s/%s: %w", w.Namespace, name, err)
		}
		if owner, err := o.workload(); err == nil && owner == w {
			state, _ := o.state(w)
			return state, true, nil
		}
	}
	return ledger.State{}, false, nil
}
