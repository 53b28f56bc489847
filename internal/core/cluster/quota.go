// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "slices"

// MostQuotas is the maximum number of ResourceQuotas of one namespace that podfit evaluates.
const MostQuotas = 100

// Quotas contains the ResourceQuotas of one namespace that may bound the size of a pod. It is immutable.
type Quotas struct {
	List    []Quota // sorted by name
	TooMany bool    // there are more than MostQuotas; List is empty
}

// A Quota is the unused part of one ResourceQuota.
type Quota struct {
	Name       string
	Left       PodResources // hard minus used, rounded down; negative if more is used. Only resources that the quota bounds are set
	Hard       PodResources // the bounds of the quota, rounded down
	BoundsPods bool
	PodsLeft   int64 // hard minus used number of pods
	NotCounted bool  // the status has no usage yet; the API server refuses the pods that the quota counts
	Scopes     []QuotaScope
}

// A QuotaScope restricts the pods that a quota counts. A quota counts the pods that are in all of its scopes.
type QuotaScope struct {
	Kind    ScopeKind
	Classes []string // names of priority classes, for PriorityClassIn and PriorityClassNotIn
}

// A ScopeKind is the kind of a scope.
type ScopeKind uint8

// The kinds of scopes.
const (
	UnreadableScope     ScopeKind = iota // not known to podfit
	NoPodScope                           // no pod is in it
	TerminatingScope                     // pods with activeDeadlineSeconds
	NotTerminatingScope                  // all other pods
	BestEffortScope                      // pods without requests and limits
	NotBestEffortScope                   // all other pods
	CrossNamespaceAffinityScope
	PriorityClassExists
	PriorityClassDoesNotExist
	PriorityClassIn
	PriorityClassNotIn
)

// A Truth is an answer that may be unknown.
type Truth uint8

// The values of Truth.
const (
	Unknown Truth = iota
	No
	Yes
)

// TruthOf returns Yes or No.
func TruthOf(is bool) Truth {
	if is {
		return Yes
	}
	return No
}

func (t Truth) not() Truth { return [...]Truth{Unknown: Unknown, No: Yes, Yes: No}[t] }

// A Standing contains the properties of a pod, other than its size, that determine which quotas count the pod, and which amounts. In
// the zero value all properties are unknown.
type Standing struct {
	Terminating            Truth // it has activeDeadlineSeconds
	CrossNamespaceAffinity Truth // it has an affinity to pods of other namespaces
	PriorityClass          string
	PriorityClassKnown     bool
	Overhead               Resources // spec.overhead, which quotas count
}

// Counts reports whether the quota counts a pod with these properties.
func (q *Quota) Counts(s Standing, bestEffort bool) Truth {
	all := Yes
	for i := range q.Scopes {
		switch q.Scopes[i].holds(s, bestEffort) {
		case No:
			return No
		case Unknown:
			all = Unknown
		case Yes:
		}
	}
	return all
}

func (q *QuotaScope) holds(standing Standing, bestEffort bool) Truth {
	switch q.Kind {
	case NoPodScope:
		return No
	case TerminatingScope:
		return standing.Terminating
	case NotTerminatingScope:
		return standing.Terminating.not()
	case BestEffortScope:
		return TruthOf(bestEffort)
	case NotBestEffortScope:
		return TruthOf(!bestEffort)
	case CrossNamespaceAffinityScope:
		return standing.CrossNamespaceAffinity
	case PriorityClassExists, PriorityClassDoesNotExist, PriorityClassIn, PriorityClassNotIn:
		if standing.PriorityClassKnown {
			return TruthOf(q.holdsFor(standing.PriorityClass))
		}
	case UnreadableScope:
	}
	return Unknown
}

// holdsFor reports whether a pod with a priority class, or without one (""), is in a scope of priority classes.
func (q *QuotaScope) holdsFor(class string) bool {
	switch q.Kind {
	case PriorityClassExists:
		return class != ""
	case PriorityClassDoesNotExist:
		return class == ""
	case PriorityClassIn:
		return class != "" && slices.Contains(q.Classes, class)
	default: // PriorityClassNotIn
		return class == "" || !slices.Contains(q.Classes, class)
	}
}

// LimitRange is the combination of the LimitRange objects of one namespace: the lowest maximum, the highest minimum and the
// last default of each type. The zero value has no bounds.
type LimitRange struct {
	Container Range
	Pod       Range

	// ContainerRatio and PodRatio are the lowest maxLimitRequestRatio of each type, in thousandths.
	ContainerRatio, PodRatio Resources

	// DefaultRequest is the request that the API server sets on a container without one.
	DefaultRequest Resources

	// Fractions is true if some memory amounts are not whole bytes. Minima and default requests are rounded up, maxima and
	// default limits are rounded down.
	Fractions bool
}

// A Range bounds an amount. A bound that is not set has no effect.
type Range struct {
	Min     Resources
	Max     Resources
	Default Resources // the limit that the API server sets on a container without one; containers only
}
