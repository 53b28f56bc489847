// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"podfit.dev/podfit/internal/core/sizing"
	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/profile"
)

// profileReader reads the SizingProfiles of the cluster into the catalog. The recommender's goroutine owns it.
type profileReader struct {
	listed  func(context.Context) ([]kube.SizingProfile, error)
	catalog *sizing.Catalog
	log     *slog.Logger

	err error // of the last attempt
}

// read lists the SizingProfiles, if they are used. If that fails, the catalog does not change.
func (p *profileReader) read(ctx context.Context) {
	if p.catalog.OnlyDefault() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := p.listed(ctx)
	missing := errors.Is(err, kube.ErrUnsupported)
	switch {
	case err != nil:
		p.reportError(ctx, err, missing)
		if !missing {
			return
		}
	case p.err != nil:
		p.log.Info("Listed SizingProfiles after earlier failures", slog.Int("count", len(list)))
		p.err = nil
	}
	names := make([]string, 0, len(list))
	for i := range list {
		names = append(names, list[i].Name)
		p.learn(&list[i])
	}
	for _, name := range p.catalog.Listed(names) {
		p.log.Warn("SizingProfile deleted; VPAs that reference it keep its last valid parameters", slog.String("profile", name))
	}
}

// reportError logs an error unless the last attempt failed for the same cause.
func (p *profileReader) reportError(ctx context.Context, err error, missing bool) {
	repeated := p.err != nil && errors.Is(p.err, kube.ErrUnsupported) == missing
	if repeated || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p.err = err
	switch {
	case missing:
		p.log.Info("The cluster has no SizingProfile API; only built-in profiles are available",
			slog.String("remedy", "to use SizingProfiles, install the CRDs: podfit crds | kubectl apply --server-side --force-conflicts -f -"))
	case errors.Is(err, kube.ErrForbidden):
		p.log.Info("Not permitted to list SizingProfiles; profiles that were read before stay in use",
			slog.String("remedy", "to use SizingProfiles, let the recommender list sizingprofiles.podfit.dev, as deploy/10-rbac.yaml does"), slog.Any("error", err))
	default:
		p.log.Warn("Cannot list SizingProfiles; profiles that were read before stay in use", slog.Any("error", err))
	}
}

// learn adds a SizingProfile to the catalog, if its version is new.
func (p *profileReader) learn(o *kube.SizingProfile) {
	if p.catalog.Current(o.Name, o.Version) {
		return
	}
	parsed, err := profile.Parse(o.JSON)
	if err != nil {
		p.catalog.LearnInvalid(o.Name, o.Version, err.Error())
		p.log.Warn("SizingProfile is invalid; VPAs that reference it keep its last valid parameters, if there are any",
			slog.String("profile", o.Name), slog.Any("error", err))
		return
	}
	isNew := p.catalog.Learn(o.Name, o.Version, parsed)
	p.log.Info("Read a SizingProfile", slog.String("profile", o.Name), slog.Bool("new", isNew), slog.String("about", parsed.About))
}
