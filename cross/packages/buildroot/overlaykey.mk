################################################################################
#
# overlaykey
#
################################################################################

# Tried: its install commands, by GNU make with a stand-in for Buildroot (tests/init/run packages).
# Not tried: Buildroot itself. It must bring Rust 1.95; where it does not, take a binary of cross/build from a
# post-build script (BR2_ROOTFS_POST_BUILD_SCRIPT) instead: cross/install DESTDIR="$1" INIT=buildroot BINARY=...
#
# The source is an archive beside this file:
#   git archive --prefix=overlaykey-0.1.0/ -o cross/packages/buildroot/overlaykey-0.1.0.tar.gz HEAD
# An image has no token. A rootfs overlay could not give it mode 0600 anyway (a device table could).

OVERLAYKEY_VERSION = 0.1.0
OVERLAYKEY_SITE = file://$(abspath $(OVERLAYKEY_PKGDIR))
OVERLAYKEY_SOURCE = overlaykey-$(OVERLAYKEY_VERSION).tar.gz
OVERLAYKEY_LICENSE = MIT
OVERLAYKEY_LICENSE_FILES = LICENSE

# cargo install, the default, has /usr/bin only.
define OVERLAYKEY_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/target/$(RUSTC_TARGET_NAME)/$(if $(BR2_ENABLE_DEBUG),debug,release)/overlaykey \
		$(TARGET_DIR)/usr/sbin/overlaykey
	$(INSTALL) -D -m 0644 $(@D)/cross/overlaykey.conf $(TARGET_DIR)/etc/overlaykey/overlaykey.conf
endef

define OVERLAYKEY_INSTALL_INIT_SYSV
	$(INSTALL) -D -m 0755 $(@D)/cross/init/buildroot/etc/init.d/S95overlaykey \
		$(TARGET_DIR)/etc/init.d/S95overlaykey
endef

define OVERLAYKEY_INSTALL_INIT_OPENRC
	$(INSTALL) -D -m 0755 $(@D)/cross/init/openrc/etc/init.d/overlaykey $(TARGET_DIR)/etc/init.d/overlaykey
	$(INSTALL) -D -m 0644 $(@D)/cross/init/openrc/etc/conf.d/overlaykey $(TARGET_DIR)/etc/conf.d/overlaykey
	$(INSTALL) -d -m 0755 $(TARGET_DIR)/etc/runlevels/default
	ln -sf /etc/init.d/overlaykey $(TARGET_DIR)/etc/runlevels/default/overlaykey
endef

define OVERLAYKEY_INSTALL_INIT_SYSTEMD
	$(INSTALL) -D -m 0644 $(@D)/cross/init/systemd/usr/lib/systemd/system/overlaykey.service \
		$(TARGET_DIR)/usr/lib/systemd/system/overlaykey.service
endef

$(eval $(cargo-package))
