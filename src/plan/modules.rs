//! Modules that plans share: one for a binary, however many shapes have a plan of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::DeviceContext;
use super::module::Module;
use crate::compile::Cubin;
use crate::error::Error;

/// Modules of a device by the addresses of their cubins, which live as long as somebody has them.
#[derive(Debug, Default)]
pub(super) struct Modules(Mutex<HashMap<usize, Loaded>>);

/// A module, and what it was loaded from.
#[derive(Debug)]
struct Loaded {
    cubin: Weak<Cubin>,
    module: Weak<Module>,
}

impl Modules {
    /// The module of a cubin: one that a plan has, or else loaded now.
    ///
    /// # Safety
    /// As [`Module::load`].
    pub(super) unsafe fn get_or_load(&self, context: &DeviceContext, cubin: &Arc<Cubin>) -> Result<Arc<Module>, Error> {
        if let Some(module) = self.get(cubin) {
            return Ok(module);
        }
        // not under the lock, so that others are loaded meanwhile
        // SAFETY: as promised by the caller.
        let module = Arc::new(unsafe { Module::load(context, cubin) }?);
        let mut modules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        modules.retain(|_, loaded| loaded.module.strong_count() > 0);
        modules.insert(address(cubin), Loaded { cubin: Arc::downgrade(cubin), module: Arc::downgrade(&module) });
        Ok(module)
    }

    fn get(&self, cubin: &Arc<Cubin>) -> Option<Arc<Module>> {
        let modules = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = modules.get(&address(cubin))?;
        // another cubin may have been there before
        loaded.cubin.upgrade().filter(|known| Arc::ptr_eq(known, cubin))?;
        loaded.module.upgrade()
    }
}

fn address(cubin: &Arc<Cubin>) -> usize {
    Arc::as_ptr(cubin).addr()
}
