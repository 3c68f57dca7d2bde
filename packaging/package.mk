# SPDX-License-Identifier: MIT
# A Debian package and a relocatable tarball, both in build/: included by the Makefile.

package_version := $(firstword $(subst +, ,$(VERSION)))
package_files = Makefile LICENSE README.md CHANGELOG.md completions docs examples lib packaging tools

# Equal sources give equal packages: no clock, no place, no order of files in them.
package_epoch = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)

# --- Debian ----------------------------------------------------------------

deb_at ?= build/deb

deb: # SPOT_BUILT=DIR: of tools that are in DIR/bin already; deb_at=DIR: there
	$(Q)for c in dh dpkg-buildpackage fakeroot; do command -v $$c >/dev/null || { \
	  echo "make deb needs $$c: apt-get install debhelper dpkg-dev fakeroot" >&2; exit 1; }; done
	$(Q)rm -rf '$(deb_at)/spot' && rm -f '$(deb_at)'/spot_*.deb '$(deb_at)'/spot-*_*.deb && mkdir -p '$(deb_at)/spot'
	$(Q)cp -a $(package_files) '$(deb_at)/spot' && cp -a packaging/debian '$(deb_at)/spot/debian'
	$(Q)cd '$(deb_at)/spot' && env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u VERSION \
	  $(if $(SPOT_BUILT),SPOT_BUILT='$(abspath $(SPOT_BUILT))') DEB_BUILD_OPTIONS="$${DEB_BUILD_OPTIONS:-parallel=$(or $(JOBS),$(shell nproc))}" \
	  dpkg-buildpackage -b -us -uc -d >../build.log 2>&1 || { tail -n 30 ../build.log >&2; exit 1; }
	$(Q)rm -rf '$(deb_at)/spot' && ls '$(deb_at)'/*.deb

# --- tarball ---------------------------------------------------------------

# The tools find the libraries of the tarball beside them, wherever that is: an RPATH, since a
# RUNPATH is not asked for what these libraries need themselves. It holds them all but glibc's.
tar_name = spot-$(package_version)-linux-$(shell uname -m)
tar_at  ?= build
reloc   := $(B)/relocatable
reloc_ldflags = -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib/spot'

define reloc_rule
$(reloc)/bin/$(1): $$(patsubst %.c,$$(B)/%.o,$$(wildcard tools/$(1)/*.c)) $$(libspot) packaging/package.mk
	$$(call say,LD)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS) $$(LDFLAGS) $$(reloc_ldflags) $$(filter-out %.mk,$$^) $$(LDLIBS) -o $$@
endef
$(foreach t,$(tools),$(eval $(call reloc_rule,$(t))))

tarball: $(tools:%=$(reloc)/bin/%)
	$(Q)rm -rf '$(reloc)/$(tar_name)'
	$(Q)env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -s -o all install CUDA=no VERSION='$(VERSION)' DESTDIR= PREFIX='$(abspath $(reloc))/$(tar_name)' B='$(abspath $(reloc))'
	$(Q)packaging/bundle '$(reloc)/$(tar_name)'
	$(Q)mkdir -p '$(tar_at)'
	$(Q)tar -C '$(reloc)' --sort=name --mtime=@$(package_epoch) --owner=0 --group=0 --numeric-owner \
	  --mode=go=rX,u+rw -c '$(tar_name)' | gzip -n9 >'$(tar_at)/$(tar_name).tar.gz'
	$(Q)rm -rf '$(reloc)/$(tar_name)' && ls '$(tar_at)/$(tar_name).tar.gz'

.PHONY: deb tarball
