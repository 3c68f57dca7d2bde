# SPDX-License-Identifier: MIT
# Installation, a Debian package and a relocatable tarball, both in build/: included by the Makefile.

# --- install ---------------------------------------------------------------

bindir  ?= $(prefix)/bin
datadir ?= $(prefix)/share
mandir  ?= $(datadir)/man
docdir  ?= $(datadir)/doc/spot
compdir ?= $(datadir)/bash-completion/completions
zshdir  ?= $(datadir)/zsh/site-functions
fishdir ?= $(datadir)/fish/vendor_completions.d

# what the manuals point to, at the same place under docdir
doc_files = $(sort $(wildcard docs/*.md docs/formats/*.md docs/design/*.md) $(shell find examples -type f))
man_pages = $(sort $(wildcard docs/man/*.[157]))

install: all
	install -d '$(DESTDIR)$(bindir)' '$(DESTDIR)$(libdir)/spot' '$(DESTDIR)$(docdir)' \
	  '$(DESTDIR)$(datadir)/spot/schema' '$(DESTDIR)$(compdir)' '$(DESTDIR)$(zshdir)' '$(DESTDIR)$(fishdir)' \
	  $(foreach n,1 5 7,'$(DESTDIR)$(mandir)/man$n')
	install -m 755 $(tools:%=$(B)/bin/%) '$(DESTDIR)$(bindir)'
	$(if $(filter yes,$(CUDA)),install -m 644 $(module) '$(DESTDIR)$(libdir)/spot')
	for m in $(man_pages); do install -m 644 $$m '$(DESTDIR)$(mandir)'/man$${m##*.}; done
	install -m 644 $(wildcard docs/schema/*.json) '$(DESTDIR)$(datadir)/spot/schema'
	for t in $(tools); do install -m 644 completions/spot.bash '$(DESTDIR)$(compdir)'/$$t; \
	  grep -E "^#|^complete -c $$t " completions/spot.fish >'$(DESTDIR)$(fishdir)'/$$t.fish; done
	install -m 644 completions/_spot '$(DESTDIR)$(zshdir)'
	install -m 644 LICENSE README.md CHANGELOG.md '$(DESTDIR)$(docdir)'
	for f in $(doc_files); do if [ -x $$f ]; then m=755; else m=644; fi; \
	  install -D -m $$m $$f '$(DESTDIR)$(docdir)'/$${f#docs/}; done

uninstall:
	rm -f $(tools:%='$(DESTDIR)$(bindir)/%') $(tools:%='$(DESTDIR)$(compdir)/%') \
	  '$(DESTDIR)$(zshdir)/_spot' $(tools:%='$(DESTDIR)$(fishdir)/%.fish') \
	  $(foreach m,$(man_pages),'$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $m))/$(notdir $m)')
	rm -rf '$(DESTDIR)$(libdir)/spot' '$(DESTDIR)$(datadir)/spot'
	rm -f $(foreach f,LICENSE README.md CHANGELOG.md $(doc_files:docs/%=%),'$(DESTDIR)$(docdir)/$f') # it may be anybody's
	for d in '$(DESTDIR)$(bindir)' '$(DESTDIR)$(libdir)' '$(DESTDIR)$(compdir)' \
	  $(foreach d,$(sort ./ $(dir $(doc_files:docs/%=%))),'$(DESTDIR)$(docdir)/$d') \
	  '$(DESTDIR)$(zshdir)' '$(DESTDIR)$(fishdir)' \
	  $(foreach n,1 5 7,'$(DESTDIR)$(mandir)/man$n'); do \
	  while [ "$$d" != '$(DESTDIR)$(prefix)' ] && rmdir "$$d" 2>/dev/null; do d=$$(dirname "$$d"); done; done

# --- packages --------------------------------------------------------------

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

$(foreach t,$(tools),$(eval $(reloc)/bin/$t: $(call tool_obj,$t)))
$(tools:%=$(reloc)/bin/%): LDFLAGS += $(reloc_ldflags)
$(tools:%=$(reloc)/bin/%): $(libspot) packaging/package.mk
	$(call say,LD)
	$(link)

tarball: $(tools:%=$(reloc)/bin/%)
	$(Q)rm -rf '$(reloc)/$(tar_name)'
	$(Q)env -u MAKEFLAGS -u MAKELEVEL $(MAKE) -s -o all install CUDA=no VERSION='$(VERSION)' DESTDIR= PREFIX='$(abspath $(reloc))/$(tar_name)' B='$(abspath $(reloc))'
	$(Q)packaging/bundle '$(reloc)/$(tar_name)'
	$(Q)mkdir -p '$(tar_at)'
	$(Q)tar -C '$(reloc)' --sort=name --mtime=@$(package_epoch) --owner=0 --group=0 --numeric-owner \
	  --mode=go=rX,u+rw -c '$(tar_name)' | gzip -n9 >'$(tar_at)/$(tar_name).tar.gz'
	$(Q)rm -rf '$(reloc)/$(tar_name)' && ls '$(tar_at)/$(tar_name).tar.gz'

.PHONY: deb install tarball uninstall
